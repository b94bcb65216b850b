"""Build self-contained HTML documents from the assets and a payload."""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from string import Template
from typing import Any

ASSETS = Path(__file__).with_name("assets")
LICENCE = "vendor/uPlot-LICENSE.txt"  # every copy of uPlot must contain it
STYLES = ("vendor/uPlot.min.css", "page.css")
# The scripts of every page, in the order in which they need each other.
SCRIPTS = (
    "vendor/uPlot.iife.min.js",
    "base.js",
    "table.js",
    "chart-table.js",
    "chart-parts.js",
    "chart-touch.js",
    "charts.js",
    "pictures.js",
)
# The scripts of a run's page. The order of the sections on the page is the order of these files.
RUN_SCRIPTS = (
    "model.js",
    "head.js",
    "axes.js",
    "members.js",
    "heat.js",
    "samples.js",
    "scores.js",
    "herd.js",
    "sites.js",
    "cell.js",
    "torus.js",
    "training.js",
    "last.js",
    "ranks.js",
    "texts.js",
    "live.js",
    "page.js",
)


def run_document(payload: Mapping[str, Any], live: Mapping[str, Any] | None = None) -> str:
    """Return the page of a run, from the payload of ``remuda.reports.page.payload``."""
    title = f"{payload['name']}: {payload['strategy']}"
    return document(title, payload, RUN_SCRIPTS, live=live)


def document(
    title: str,
    payload: Mapping[str, Any],
    scripts: Sequence[str],
    styles: Sequence[str] = (),
    live: Mapping[str, Any] | None = None,
) -> str:
    """Return a page that contains its data, scripts and styles.

    ``scripts`` and ``styles`` are names of assets, in addition to those that every page has.
    ``live`` says from which URL of the page's own server the page reads new data.
    """
    styles = list(dict.fromkeys((*STYLES, *styles)))
    scripts = list(dict.fromkeys((*SCRIPTS, *scripts)))
    return _shell().substitute(
        title=escape(title),
        policy=escape(_policy(scripts, styles, live is not None)),
        fallback=_fallback(payload),
        licence=asset(LICENCE),
        styles="\n".join(f"<style>{asset(name)}</style>" for name in styles),
        scripts="\n".join(
            [
                f'<script type="application/json" id="payload">{_json(payload)}</script>',
                f'<script type="application/json" id="live">{_json(live)}</script>',
                *(f"<script>{asset(name)}</script>" for name in scripts),
            ]
        ),
    )


def message(title: str, text: str, link: str, address: str) -> str:
    """Return a page that says one thing, such as why a run cannot be shown, and offers a link."""
    policy = f"default-src 'none'; style-src {_digest('page.css')}; img-src data:"
    return Template(asset("message.html")).substitute(
        title=escape(title),
        policy=escape(policy),
        styles=f"<style>{asset('page.css')}</style>",
        text=escape(text),
        link=escape(link),
        address=escape(address),
    )


@cache
def asset(name: str) -> str:
    """Return the text of an asset, such as ``charts.js``."""
    return (ASSETS / name).read_text(encoding="utf-8")


@cache
def _shell() -> Template:
    return Template(asset("page.html"))


def _json(value: Any) -> str:
    """Return JSON that cannot end the script element that contains it."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.replace("<", "\\u003c")


def _policy(scripts: Sequence[str], styles: Sequence[str], is_live: bool) -> str:
    """Return a content security policy: only these scripts and styles, and no other host."""
    host = "'self'" if is_live else "'none'"
    rules = {
        "default-src": "'none'",
        "script-src": " ".join(map(_digest, scripts)),
        "style-src": " ".join(map(_digest, styles)),
        "img-src": "'self' data:" if is_live else "data:",
        "connect-src": host,
        "base-uri": "'none'",
        "form-action": "'none'",
    }
    return "; ".join(f"{name} {value}" for name, value in rules.items())


@cache
def _digest(name: str) -> str:
    content = hashlib.sha256(asset(name).encode()).digest()
    return f"'sha256-{base64.b64encode(content).decode()}'"


def _fallback(payload: Mapping[str, Any]) -> str:
    """Return the facts of a run for readers without JavaScript."""
    facts = payload.get("facts", [])
    return escape("; ".join(f"{name}: {text}" for name, text in facts))
