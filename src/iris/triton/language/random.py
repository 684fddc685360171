"""`triton.language.random`: Philox, and the random numbers that are made of it."""

from iris.frontend.triton import random
from iris.triton.language.core import WORDS

__all__ = [name for name, word in WORDS.items() if vars(random).get(name) is word]
globals().update({name: WORDS[name] for name in __all__})
