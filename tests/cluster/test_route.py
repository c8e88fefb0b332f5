"""What is known of one request while it is sent, perhaps several times."""

import asyncio

from gesso.cluster.route import Route, route_of_this_request


def test_there_is_another_replica_until_all_that_are_known_were_asked() -> None:
    route = Route()
    assert not route.has_other
    route.known = frozenset("ab")
    assert route.has_other
    route.asked["a"] += 1
    assert route.has_other
    route.asked["b"] += 1
    assert not route.has_other
    route.known = frozenset("abc")
    assert route.has_other


def test_all_tries_of_a_request_have_one_route_and_no_other_request_has_it() -> None:
    async def request() -> tuple[Route, Route]:
        first = route_of_this_request()
        await asyncio.sleep(0)
        return first, route_of_this_request()

    async def play() -> list[tuple[Route, Route]]:
        return [*await asyncio.gather(request(), request()), await asyncio.create_task(request())]

    routes = asyncio.run(play())
    assert all(first is again for first, again in routes)
    assert len({id(first) for first, _ in routes}) == len(routes)
