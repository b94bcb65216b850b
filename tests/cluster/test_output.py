"""Test what users see of the output of mpirun and its ranks."""

import itertools

import pytest

from remuda.cluster.markers import ENDED, MPI_STARTED, ROOT_ALIVE, ROOT_LOST
from remuda.cluster.output import Death, Output

RULER = "-" * 74 + "\n"


def shown(*chunks: bytes) -> tuple[str, Output]:
    output = Output()
    return "".join(output.lines(chunks)), output


def test_a_death_is_noted_and_remarks_on_it_are_dropped():
    error = "NBC_Progress: an error {} was found during schedule 0x5 at row-offset 0 - aborting\n"
    lines = [
        "a rank's own words\n",
        error.format(75),
        error.format(77),
        "\n",
        "Error in NBC_Start_round() (-1)\n",
        "\n",
        RULER,
        "prterun noticed that process rank 1 with PID 1390 on node n7 exited on\n",
        "signal 9 (Killed).\n",
        RULER,
        RULER,
        "There are not enough slots\n",
        RULER,
        "the end\n",
    ]
    text, output = shown("".join(lines).encode())
    assert text == "".join(["a rank's own words\n", *lines[10:]])
    assert output.deaths == [Death("1", "n7", "9")]


def test_notices_of_an_exit_status_are_dropped():
    """Open MPI 4 prints them although the rank has explained its exit."""
    lines = [
        "mpirun: Forwarding signal 10 to job\n",
        "[n7:12347] pmix_ptl_base: send_msg: write failed: Connection reset by peer (104)\n",
        "[h2:24066] plm:ssh: Warning: setpgid(24070,24070) failed in parent with errno=13\n",
        "[warn] Epoll MOD(1) on fd 30 failed. Old events were 6; read change was 0 (none)\n",
        "remuda: discriminator_loss of member 0 became nan\n",
        RULER,
        "Primary job  terminated normally, but 1 process returned\n",
        "a non-zero exit code. Per user-direction, the job has been aborted.\n",
        RULER,
        RULER,
        "mpirun detected that one or more processes exited with non-zero status, thus causing\n",
        "the job to be terminated. The first process to do so was:\n",
        "\n",
        "  Process name: [[246,1],0]\n",
        "  Exit code:    2\n",
        RULER,
    ]
    assert shown("".join(lines).encode())[0] == lines[4]


def test_a_failed_start_of_mpirun_is_noted():
    text, output = shown(f"{RULER}The listener thread failed to start.\n{RULER}".encode())
    assert text == "" and output.mpirun_failed


def test_a_lost_daemon_is_noted():
    lines = [
        "PRTE has lost communication with a remote daemon.\n",
        "\n",
        "  HNP daemon   : [prterun-n1-70@0,0] on node n1\n",
        "  Remote daemon: [prterun-n1-70@0,2] on node n3\n",
        "\n",
        "This is usually due to either a failure of the TCP network\n",
    ]
    text, output = shown("".join([RULER, *lines, RULER, "the end\n"]).encode())
    assert text == "the end\n" and output.lost_daemons == ["n3"] and not output.deaths


def test_the_markers_of_a_jobs_end_are_noted():
    for status, marker in ENDED.items():
        text, output = shown(b"a\n", marker + b"\n", ENDED[1] + b"\n", b"b\n")
        assert text == "a\nb\n" and output.ended == status, "the first one counts"
        assert not (output.root_lost or output.num_signs)
    text, output = shown(ROOT_ALIVE + b"\n", b"a\n", ROOT_LOST + b"\n", ROOT_ALIVE + b"\nb\n")
    assert text == "a\nb\n" and output.root_lost and output.num_signs == 2
    assert output.ended is None


@pytest.mark.parametrize(
    "chunks",
    [
        [b"\x02\n", b"\x02\none\ntwo\n\x0e\n\x0e\n"],
        [b"\x02\none\n\x0e\n", b"two\n"],
        [b"\x02\x02\n\none\ntwo\n\x0e\x0e\n\n"],  # two ranks at once
        [b"\x02", b"\none\ntwo\n\x0e", b"\n"],  # read in two parts
        [b"\x02", b"one\n", b"\n\x0etwo\n\n"],  # parted by the text of another rank
        [b"o\x02\n", b"ne\nt", b"w\x0e\no", b"\n"],  # in the middle of a line
        [b"one\n\x0e\ntwo\n\x02\n"],  # one rank finishes before another one starts
        [b"\x02\none\ntwo\n\x0e"],  # the newline is lost
    ],
)
def test_markers_leave_no_trace(chunks):
    text, output = shown(*chunks)
    assert text == "one\ntwo\n" and output.mpi_started and output.ended == 0


def test_markers_of_many_ranks_may_interleave_in_any_order():
    ranks = [MPI_STARTED + b"\n", b"a warning\n", ENDED[0] + b"\n"]
    for order in itertools.permutations(ranks * 2):
        text, output = shown(*order)
        assert text == "a warning\n" * 2 and output.mpi_started and output.ended == 0


def test_a_marker_arrives_before_the_end_of_its_line():
    output = Output()
    seen = []

    def chunks():
        yield b"half a line" + MPI_STARTED + b"\n"
        seen.append(output.mpi_started)
        yield b" and the rest"

    assert list(output.lines(chunks())) == ["half a line and the rest"] and seen == [True]


def test_markers_do_not_split_characters():
    text, _ = shown("12 µ".encode()[:-1], MPI_STARTED + b"\n", "µ".encode()[1:] + b"s\n")
    assert text == "12 µs\n"
