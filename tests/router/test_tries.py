"""How often a request is sent again: errors that servers tell, and servers that are lost under it."""

from gesso.router.tries import Tries


class Clock:
    now = 50.0

    def __call__(self) -> float:
        return self.now


def test_an_error_that_servers_tell_is_asked_about_so_many_times() -> None:
    tries = Tries(2, 1000.0, Clock())
    assert [tries.answered() for _ in range(3)] == [True, True, False]


def test_lost_servers_are_outlived_for_a_while() -> None:
    clock = Clock()
    tries = Tries(2, 10.0, clock)
    assert all(tries.lost() for _ in range(40))
    clock.now += 9.9
    assert tries.lost()
    clock.now += 0.1
    assert not tries.lost()


def test_a_slow_first_block_leaves_all_tries() -> None:
    clock = Clock()
    tries = Tries(2, 10.0, clock)
    clock.now += 60.0
    assert [tries.lost() for _ in range(3)] == [True, True, False]


def test_getting_further_forgets_all() -> None:
    clock = Clock()
    tries = Tries(1, 10.0, clock)
    assert [tries.answered(), tries.lost()] == [True, True]
    clock.now += 60.0
    assert tries.reached(1)
    assert [tries.answered(), tries.answered()] == [True, False]
    assert tries.lost()
    clock.now += 9.0
    assert not tries.reached(1)
    assert tries.lost()
    clock.now += 1.0
    assert not tries.lost()
