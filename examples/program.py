def add_seven(x):
    return x + 7


def find_four(x):
    if x == 4:
        return 12
    return x
