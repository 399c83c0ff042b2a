"""Groups of attributes make a tree that tables of people can be put together along."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from noisewright.workload.cliques import clique_tree

TABLES = st.lists(
    st.sets(st.integers(0, 6), max_size=3).map(lambda s: tuple(sorted(s))), max_size=8
)


@given(TABLES)
def test_groups_hold_all_tables_and_meet_in_a_tree(
    tables: list[tuple[int, ...]],
) -> None:
    tree = clique_tree((2, 3, 4, 2, 3, 4, 5), tables)
    assert {i for clique in tree.cliques for i in clique} == set(range(7))
    for table in tables:
        assert set(table) <= set(tree.cliques[tree.home(table)])
    # What a group has in common with all earlier ones lies in its parent.
    for number in range(1, len(tree.cliques)):
        assert tree.parents[number] < number
        earlier = {i for clique in tree.cliques[:number] for i in clique}
        assert set(tree.cliques[number]) & earlier == set(tree.separator(number))


def test_a_chain_stays_a_chain_and_a_ring_is_bridged() -> None:
    chain = clique_tree((2,) * 4, [(0, 1), (1, 2), (2, 3)])
    assert set(chain.cliques) == {(0, 1), (1, 2), (2, 3)}
    ring = clique_tree((2,) * 4, [(0, 1), (1, 2), (2, 3), (0, 3)])
    assert sorted(map(len, ring.cliques)) == [3, 3]
    assert clique_tree((), [()]).cliques == ((),)
    assert np.all([len(c) == 1 for c in clique_tree((2, 3), []).cliques])
