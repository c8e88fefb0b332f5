import asyncio
from collections.abc import Iterator

import pytest

from router import replicas


@pytest.fixture(scope="session", autouse=True)
def _loop() -> Iterator[None]:
    with asyncio.Runner() as runner:
        replicas.RUNNERS.append(runner)
        yield
        replicas.RUNNERS.pop()
