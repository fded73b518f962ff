"""A server in a thread of this process."""

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from jaxgym.serve.web import http
from jaxgym.serve.web.serving import Serving, bind


@contextlib.contextmanager
def running(app: Any, serving: Serving) -> Iterator[tuple[int, Any]]:
    """Serve an app; yield the port and the server."""
    with bind(serving) as bound:
        server = http.make_server(app, serving)
        bound.listen()
        thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]})
        thread.start()
        try:
            yield bound.getsockname()[1], server
        finally:
            server.should_exit = True
            thread.join()
