"""Check the documents that pages are made of, without a browser."""

import base64
import hashlib
import json
import re

import pytest

from remuda.reports.page import html
from tests.reports.browser import payloads

OWN = sorted(path for path in html.ASSETS.iterdir() if path.suffix in (".js", ".css"))


def test_payload_survives_hostile_texts():
    payload = payloads.class_parallel() | {"about": "<!--<script>\u2028]]>"}
    text = html.run_document(payload)
    found = re.search(r'<script type="application/json" id="payload">(.*?)</script>', text)
    assert found is not None
    assert json.loads(found[1]) == payload


def test_title_is_escaped():
    text = html.document("<b>&\"'", {}, [])
    assert "<title>&lt;b&gt;&amp;&quot;&#x27;</title>" in text


def test_policy_allows_exactly_the_scripts_and_styles_of_the_page():
    text = html.run_document(payloads.payload())
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)
    assert policy is not None
    scripts = re.findall(r"<script>(.*?)</script>", text, re.DOTALL)
    styles = re.findall(r"<style>(.*?)</style>", text, re.DOTALL)
    assert len(scripts) == len(html.SCRIPTS) + len(html.RUN_SCRIPTS)
    digests = [hashlib.sha256(part.encode()).digest() for part in (*scripts, *styles)]
    allowed = re.findall(r"sha256-([\w+/=]+)", policy[1])
    assert [base64.b64encode(digest).decode() for digest in digests] == allowed


def test_only_live_pages_may_ask_their_own_server():
    live = {"url": "data", "interval": 2000}
    still = html.run_document(payloads.payload())
    following = html.run_document(payloads.payload(), live)
    assert "connect-src &#x27;none&#x27;" in still
    assert "connect-src &#x27;self&#x27;" in following
    assert f'id="live">{json.dumps(live, separators=(",", ":"))}</script>' in following


def test_numbers_that_are_not_finite_are_refused():
    with pytest.raises(ValueError):
        html.document("page", {"value": float("nan")}, [])


def test_pages_contain_the_licence_of_uplot():
    assert html.asset(html.LICENCE) in html.document("page", {}, [])


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.name)
def test_assets_are_short_and_name_no_other_host(path):
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) < 300
    assert max(map(len, lines)) <= 100
    assert not re.search(r"https?://", "\n".join(lines))
    assert "innerHTML" not in "\n".join(lines)
