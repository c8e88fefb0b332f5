"""Does with a canvas what goes beyond writing an answer: fill holes, edit, choose."""
