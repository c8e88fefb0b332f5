"""What is done with a canvas beyond writing an answer: fill holes, edit, choose."""
