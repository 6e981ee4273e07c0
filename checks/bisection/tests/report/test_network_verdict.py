"""The report's section on pairs of nodes."""

import base64
import re

from made_up_network import World
from reports import only, page

from bisection.analysis.blame import judge
from bisection.report import exports
from bisection.report import page as pages


def judged(nodes=64, leaf=16, rounds=0, faults=(), **more):
    world = World.with_faults(*faults, nodes=nodes, leaf=leaf, seed=5)
    return judge(world.matrix(rounds, **more))


def images(text):
    """(width, height) of each PNG of a page."""
    images = [
        base64.b64decode(part) for part in re.findall(r"data:image/png;base64,([^\"]+)", text)
    ]
    return [tuple(int.from_bytes(p[at : at + 4], "big") for at in (16, 20)) for p in images]


def test_bad_components_with_where_to_look():
    report = only(
        pairs=[judged(faults=[("node", 5, 0.5), ("switch", 2, 0.8), ("pair", (1, 60), 0.4)])]
    )
    html = page(report)
    assert "Network" in html.headings
    for words in ("links of switch 2 to others", "node cn0005", "path cn0001 - cn0060"):
        assert words in html.said
    assert "transceivers" in html.said
    assert "3 bad components" in exports.markdown(report)
    assert exports.nodecheck(report).startswith("cn0005 bisection: bandwidth sends x0.")


def test_a_pixel_per_pair_and_the_switch_of_a_component_enlarged():
    text = pages.html(only(pairs=[judged(faults=[("node", 5, 0.5)])]))
    assert {(64, 64), (64, 16)} <= set(images(text))


def test_few_rounds_are_a_row_per_node():
    blame = judged(rounds=8, faults=[("node", 5, 0.5)])
    text = pages.html(only(pairs=[blame]))
    assert (4, 64) in images(text)
    assert "A row per node" in text


def test_a_clean_network_is_said_to_be_so():
    report = only(pairs=[judged(known=False, leaf=64)])
    assert "No bad component: latency, bandwidth, both ways judged" in page(report).said
    assert "no topology is known" in page(report).said
    assert exports.nodecheck(report) == ""


def test_withheld_verdict_has_its_reason():
    html = page(only(pairs=[judged(nodes=4)]))
    assert "4 nodes do not tell a bad node from noise" in html.said


def test_4096_nodes_stay_within_a_page():
    slow = judged(4096, 32, 16, faults=[("node", 77, 0.5)])
    text = pages.html(only(pairs=[slow]))
    assert len(text) < pages.LIMIT
    assert "node cn0077" in text
