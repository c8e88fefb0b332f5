"""Stands before several servers as one: keeps conversations together, and goes on with streams whose server is lost.

`asked` reads what of a request decides. `affinity`, `replicas` and `health` choose a server; `client` (`http` over
`wire`) asks it; `chunks` and `events` read what it sends, and `ledger` keeps what the client has of it. `failure` and
`tries` say whether to ask again, `forward` does, and `writer` answers the client; `model_list` asks all. `spawn` starts
servers. Servers are known by HTTP alone.
"""
