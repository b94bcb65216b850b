"""The model card reports the run, and names from outside stay plain text."""

import json
import re

import pytest
from markdown_it import MarkdownIt

from remuda.model.export import folder
from remuda.model.export.manifest import data_name
from remuda.model.export.markdown import JOINER, fenced, front_matter, plain
from remuda.networks import MLP
from remuda.scores import Value
from remuda.strategies import STRATEGIES
from remuda.strategies.citations import CITATIONS
from tests.model.export.models import new_model, new_run

yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")

HOSTILE = [
    "<script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "![x](http://evil.example/a.png)",
    "[click](javascript:alert(1))",
    "[ref]: http://evil.example",
    "a | b | c",
    "```\ncode\n```",
    "`code` ``more``",
    "# heading",
    "- item",
    "1. item",
    "> quote",
    "***",
    "---\nlicense: stolen\n---",
    "a\n\n## Licence\n\nApache",
    "setext\n===",
    "**bold** _thin_ ~~gone~~",
    "&lt;b&gt; &amp;",
    "https://evil.example www.evil.example me@evil.example",
    "\\`escaped\\`",
    "$x^2$ :smile: @someone #1",
    "'single' \"double\" {braces}: yes",
    "\u202eright to left\u2028line\x85next\x00\ufeff",
    "emoji \U0001f600",
    "broken \udcff bytes",
    "x" * 500,
]
EXPECTED = ["Use", "Model", "Data", "Training", "Scores", "Licence", "Cite"]


def visible(name):
    """Return how a name looks in the card."""
    text = " ".join("".join(c if c.isprintable() else " " for c in name).split())
    return text if len(text) <= 60 else text[:59] + "…"


def render(text):
    return MarkdownIt("gfm-like", {"linkify": False}).parse(text)


def inline(tokens):
    return [child for token in tokens for child in token.children or ()]


@pytest.mark.parametrize("name", HOSTILE)
@pytest.mark.parametrize("place", ["{}", "# {}", "- {}", "| a |\n|---|\n| {} |", "text\n{}"])
def test_names_stay_text_everywhere(name, place):
    tokens = render(place.format(plain(name)))
    kinds = {token.type for token in (*tokens, *inline(tokens))}
    assert not kinds & {
        *("html_block", "html_inline", "link_open", "image", "code_inline", "fence"),
        *("em_open", "strong_open", "s_open", "hr", "blockquote_open", "ordered_list_open"),
    }
    headings = [token for token in tokens if token.type == "heading_open"]
    assert len(headings) == place.startswith("#")
    text = "".join(child.content for child in inline(tokens) if child.type == "text")
    assert visible(name) in text.replace(JOINER, "")
    assert not re.search(r"https?://|www\.|\w@\w", text), "pages turn addresses into links"


@pytest.mark.parametrize("name", HOSTILE)
def test_names_stay_strings_in_the_front_matter(name):
    text = front_matter({"name": name, "list": [{"key": name}, 1.5, 2, True]}, ["a comment"])
    assert text.startswith("---\n") and text.endswith("\n---") and text.count("\n") == 4
    found = yaml.safe_load(text.removeprefix("---\n").removesuffix("---"))
    expected = name.replace("\udcff", "\ufffd")
    assert found == {"name": expected, "list": [{"key": expected}, 1.5, 2, True]}


def test_code_cannot_end_its_own_block():
    tokens = render(fenced('name = "````\\n# heading"', "toml"))
    assert [token.type for token in tokens] == ["fence"]


def card_of(tmp_path, to, classes=("cat", "dog", "owl"), data="toy", scores=(), label=None):
    model = new_model(MLP(latent=6, hidden=8), classes=classes, data=data, shape=(1, 8, 8))
    run = new_run(tmp_path / "run", model)
    if scores:
        lines = [json.dumps({**VALUE, "round": t, "name": name}) for t, name in scores]
        (run / "scores.jsonl").write_text("".join(f"{line}\n" for line in lines))
    target = folder.write_export(model, run, to, label=label)
    return (target / "README.md").read_text(encoding="utf-8")


VALUE = {
    **{"value": 12.345678, "spread": None, "floor": 1.5, "floor_samples": 10, "classes": None},
    **{"num_samples": 2000, "seed": 0, "reference": "train", "num_reference": 19},
    **{"reference_digest": "a", "network": "lenet", "network_digest": "b"},
    **{"precision": "fp32", "seconds": 1.0},
}


@pytest.mark.parametrize("start", range(0, len(HOSTILE) - 2, 8))
def test_a_card_with_hostile_names_has_the_same_structure(start, tmp_path):
    classes = [f"{i}{name}" if i else name for i, name in enumerate(HOSTILE[start : start + 3])]
    scores = [(4, f"fid_{HOSTILE[start]}")]
    text = card_of(tmp_path, "hub", classes, f"folder:/home/{HOSTILE[start]}", scores)
    header, body = re.fullmatch(r"---\n(.*?)\n---\n(.*)", text, re.DOTALL).groups()
    values = yaml.safe_load(header)
    assert set(values) == {"library_name", "pipeline_tag", "tags", "model-index"}
    tokens = render(body)
    titles = [
        tokens[i + 1].content for i, token in enumerate(tokens) if token.type == "heading_open"
    ]
    assert titles == ["run", *EXPECTED]
    kinds = {token.type for token in (*tokens, *inline(tokens))}
    assert not kinds & {"html_block", "html_inline", "link_open", "em_open", "strong_open"}
    images = [child.attrs["src"] for child in inline(tokens) if child.type == "image"]
    assert images == ["samples.png"]
    shown = [token.content for token in inline(tokens) if token.type == "text"]
    for name in classes:
        assert visible(name) in "".join(shown).replace(JOINER, "")


def test_a_card_reports_scores_of_its_own_round_with_their_protocol(tmp_path):
    text = card_of(tmp_path, "hub", scores=[(2, "fid_1k_train_lenet"), (4, "fid_2k_train_lenet")])
    assert "fid_1k" not in text
    row = r"| fid\_2k\_train\_lenet | 12.35 |  | 1.5 | 2,000 | train, 19 | lenet |"
    assert row in text
    results = yaml.safe_load(text.split("---\n")[1])["model-index"][0]["results"][0]
    metric = {"type": "fid", "name": "fid_2k_train_lenet", "value": 12.3457}
    assert results["metrics"] == [metric] and results["dataset"]["name"] == "toy"
    assert set(VALUE) <= set(Value.__dataclass_fields__) | {"round"}


def test_a_card_of_one_class_does_not_claim_the_scores_of_the_model(tmp_path):
    text = card_of(tmp_path, "hub", scores=[(4, "fid_2k_train_lenet")], label="dog")
    assert "model-index" not in text and "A generator of images of the class dog that was" in text
    assert "These are the scores of the whole model, not of this part." in text


def test_a_card_states_what_is_not_known(tmp_path):
    text = card_of(tmp_path, "onnx")
    assert not text.startswith("---"), "only the Hub reads a front matter"
    assert "This round has not been scored." in text
    assert "## Licence\n\nNot stated." in text
    assert "| 1 | dog | 3 |" in text and "3 generators" not in text.split("## Use")[1][:50]
    assert "ONNX Runtime" in text and "Scalable balanced training" in text


def test_every_strategy_has_papers_to_cite():
    assert set(CITATIONS) == set(STRATEGIES)


def test_data_names_hide_folders():
    assert data_name("digits") == "digits"
    assert data_name("folder:/home/me/pets") == "folder:pets"
    assert data_name("my_data.py:Pets") == "my_data.py:Pets"
