"""Serves models on a Ray cluster: replicas that Ray starts, moves and counts, behind the router of this package.

`app` deploys what `settings` say: `ingress` and `prefix_router` before `replica`, asked by `call` and `handle`; `route`
is what is known of one request meanwhile; `local` starts a cluster on one machine. No other package knows Ray.
"""
