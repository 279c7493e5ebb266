"""The names of torchvision that SGLang imports for images, which no test has: a CPU build of it is in few package indexes."""

__version__ = "0.28.0"
