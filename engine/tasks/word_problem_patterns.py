"""What word problems are made of. A pattern's operators are carried out from left to right on its numbers a, b and c."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Pattern:
    """Texts with places for numbers ({a}, {b}, {c}) and for words of WORDS; ``operators`` one fewer than numbers, of + - * /."""

    operators: str
    story: str
    question: str


NAMES = "Anna Ben Clara David Emma Felix Grace Henry Ida Jack Kate Leo Maria Noah Olivia Paul"
THINGS = "apples marbles stickers pencils shells coins cookies buttons stamps balloons beads cards oranges books eggs crayons stones nuts"
BOXES = "boxes bags baskets jars bowls drawers"
WORDS = {"name": NAMES.split(), "other": NAMES.split(), "things": THINGS.split(), "boxes": BOXES.split()}


def _patterns(table: str) -> list[Pattern]:
    return [Pattern(*line.split(" | ")) for line in table.strip().splitlines()]


ONE_STEP = _patterns("""
+ | {name} has {a} {things}. {other} gives {name} {b} more. | How many {things} does {name} have now?
+ | {name} finds {a} {things} on Monday and {b} {things} on Tuesday. | How many {things} does {name} find in all?
+ | A bus has {a} passengers. At the next stop {b} more get on, and nobody gets off. | How many passengers are on the bus now?
+ | {name} is {a} years old. | How old will {name} be in {b} years?
+ | {name} walks for {a} minutes to the market and then for {b} minutes to the lake. | How many minutes does {name} walk in all?
+ | {other} has {a} {things}. {name} has {b} more {things} than {other}. | How many {things} does {name} have?
+ | {name} plants {a} tulips and {b} roses. | How many flowers does {name} plant in total?
- | {name} has {a} {things} and gives {b} of them to {other}. | How many {things} does {name} have left?
- | {name} has {a} dollars and spends {b} dollars on a book. | How many dollars does {name} have left?
- | A book has {a} pages. {name} has read {b} of them. | How many pages are left to read?
- | {name} needs {a} {things} and has {b} so far. | How many more {things} does {name} need?
- | There are {a} birds on a roof, and {b} of them fly away. | How many birds stay on the roof?
- | {name} has {a} {things}, and {other} has {b}. | How many more {things} does {name} have than {other}?
- | A rope is {a} metres long. {name} cuts off {b} metres. | How many metres of rope are left?
* | {name} has {a} {boxes} with {b} {things} in each. | How many {things} does {name} have?
* | One ticket costs {a} dollars. | How many dollars do {b} tickets cost?
* | A room has {a} rows of chairs with {b} chairs in each row. | How many chairs are in the room?
* | {name} runs {a} kilometres every day. | How many kilometres does {name} run in {b} days?
* | {name} buys {a} packs of {things}. There are {b} {things} in each pack. | How many {things} does {name} buy?
* | {name} saves {a} dollars every week. | How many dollars does {name} save in {b} weeks?
* | There are {a} trees in a garden, and {b} birds sit in each tree. | How many birds are in the garden?
/ | {name} shares {a} {things} equally among {b} friends. | How many {things} does each friend get?
/ | {name} puts {a} {things} into {boxes}, {b} into each. | How many {boxes} does {name} fill?
/ | A class of {a} children forms {b} teams of the same size. | How many children are in each team?
/ | {name} cuts a ribbon of {a} metres into pieces of {b} metres each. | How many pieces does {name} get?
/ | {name} reads a book of {a} pages in {b} days, as many every day. | How many pages does {name} read a day?
/ | {name} pays {a} dollars for {b} tickets of the same price. | How many dollars does one ticket cost?
""")
TWO_STEPS = _patterns("""
+- | {name} has {a} {things}. {other} gives {name} {b} more, and then {name} loses {c}. | How many {things} does {name} have now?
-- | {name} has {a} {things}, gives {b} of them to {other} and loses {c}. | How many {things} does {name} have left?
-+ | A bus has {a} passengers. At the next stop {b} get off and {c} get on. | How many passengers are on the bus now?
*+ | {name} has {a} {boxes} with {b} {things} in each, and {c} more {things}. | How many {things} does {name} have in all?
*- | {name} buys {a} packs with {b} {things} in each and uses {c} of the {things}. | How many {things} are left?
*- | {name} works for {a} hours at {b} dollars an hour and spends {c} dollars. | How many dollars does {name} have left?
+* | {name} reads {a} pages every morning and {b} pages every evening. | How many pages does {name} read in {c} days?
+/ | {name} has {a} {things}, and {other} has {b}. They share all equally among {c} friends. | How many does each friend get?
-/ | {name} has {a} {things}, keeps {b} and shares the rest equally among {c} friends. | How many {things} does each friend get?
/+ | {name} and others share {a} {things} equally, {b} children in all. {name} had {c} before. | How many {things} has {name} now?
""")
