"""Serve pages that follow runs while they train. The server only reads the record.

``remuda.reports.watch.server`` starts it. Requests pass ``guard`` (hosts, tokens, limits), then
``app`` (addresses), which asks ``library`` (which runs exist) and ``following`` (their data).
"""
