from streamlit.proto.WidgetStates_pb2 import WidgetState
from streamlit.testing.v1 import AppTest

from dashboard.views.help import tour
from dashboard.views.help.stations import STATIONS, Route

LAST = len(STATIONS) - 1


def script() -> None:
    import streamlit as st

    from dashboard.views.help import tour
    from dashboard.views.help.stations import STATIONS

    st.session_state.pop(tour.GOES, None)  # as on the page that it leads to
    if tour.AT in st.session_state:
        tour.show(STATIONS[st.session_state[tour.AT]].file)


def test_the_second_click_on_next_is_not_one_on_done() -> None:
    page = AppTest.from_function(script, default_timeout=300)
    page.session_state[tour.AT] = LAST - 1
    page.session_state[tour.ROUTE] = Route(STATIONS, "shown")
    page.run()
    led_on = next(button for button in page.button if button.label == "Next").proto.id
    for _ in range(2):
        states = page._tree.get_widget_states()
        states.widgets.append(WidgetState(id=led_on, trigger_value=True))
        page._run(states)
    assert tour.AT in page.session_state
    assert page.session_state[tour.AT] == LAST
    assert [button.label for button in page.button if not button.disabled] == ["Done"]
