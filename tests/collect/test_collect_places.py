"""Places among connections: bounds that no sender gets around, and who makes room."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from noisewright.collect.server.connections import Places


class Guest:
    """A connection that does nothing but wait, or be waited for."""

    def __init__(
        self, places: Places, *, waits: bool = True, moves: bool = False
    ) -> None:
        self.places, self.waits, self.moves = places, waits, moves
        self.since, self.left = 0.0, False

    def overdue(self) -> bool:
        return not self.moves

    def leave(self) -> None:
        self.left = True
        self.places.give_back(self)


def seated(places: Places, address: str, **more: bool) -> Guest | None:
    guest = Guest(places, **more)
    if places.take(guest) and places.seat(guest, address):
        return guest
    places.give_back(guest)
    return None


@given(
    st.integers(1, 6),
    st.integers(1, 4),
    st.lists(
        st.tuples(st.sampled_from(["10.0.0.1", "10.0.0.2", "x"]), st.booleans()),
        max_size=30,
    ),
)
def test_bounds_hold_whoever_comes(most, most_a_sender, arrivals):
    places = Places(most, most_a_sender, 1.0)
    guests = []
    for address, waits in arrivals:
        guest = seated(places, address, waits=waits)
        if guest is not None:
            guests.append((address, guest))
        here = [(whose, each) for whose, each in guests if not each.left]
        assert len(places) == len(here) <= most
        for sender in {whose for whose, _ in here}:
            assert sum(whose == sender for whose, _ in here) <= most_a_sender
    # nobody who was being answered
    assert all(each.waits for _, each in guests if each.left)


def test_the_longest_waited_for_makes_room_and_answers_are_never_cut():
    places = Places(2, 2, 1.0)
    first, second = seated(places, "10.0.0.1"), seated(places, "10.0.0.2")
    # it began something new: now the second has waited longest
    places.begin(first, 1.0)
    assert seated(places, "10.0.0.3") is not None
    assert (first.left, second.left) == (False, True)
    busy = Places(1, 1, 1.0)
    answered = seated(busy, "10.0.0.1", waits=False)
    assert seated(busy, "10.0.0.2") is None
    assert not answered.left


def test_one_sender_makes_room_for_itself_alone():
    places = Places(100, 2, 1.0)
    other = seated(places, "10.0.0.9")
    mine = [seated(places, "10.0.0.1") for _ in range(20)]
    assert [guest.left for guest in mine] == [True] * 18 + [False] * 2
    assert not other.left


def test_one_household_of_ipv6_is_one_sender():
    places = Places(100, 1, 1.0)
    first = seated(places, "2001:db8::1")
    seated(places, "2001:db8::2")
    assert first.left


def test_what_stands_still_is_closed_and_what_moves_stays():
    places = Places(10, 10, 1.0)
    still, moving, young = Guest(places), Guest(places, moves=True), Guest(places)
    for guest, since in ((still, 0.0), (moving, 0.0), (young, 1.5)):
        assert places.take(guest)
        places.begin(guest, since)
    places.look(2.0)
    assert (still.left, moving.left, young.left) == (True, False, False)
    assert moving.since == 2.0
    assert places.cut["overdue"] == 1


def test_only_proxies_that_were_named_are_believed():
    places = Places(10, 10, 1.0, ["127.0.0.1", "10.0.0.0/8"])
    assert places.is_proxy("10.1.2.3")
    assert not places.is_proxy("203.0.113.7")
    assert not places.is_proxy("unix:")
    # What stands before the first address that is none of ours may be made up by whoever sent it.
    assert places.sender("1.1.1.1, 203.0.113.7, 10.0.0.2", "127.0.0.1") == "203.0.113.7"
    assert places.sender("", "127.0.0.1") == "127.0.0.1"
    assert places.sender("10.0.0.3, 10.0.0.2", "127.0.0.1") == "127.0.0.1"
