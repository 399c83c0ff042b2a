"""Matrices come from files and leave as arrays: every format, and hostile files."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
import scipy.io
import scipy.sparse as sp
from click.testing import CliRunner

import noisewright as nw
from noisewright.cli import main
from noisewright.errors import FileFormatError, NoisewrightError, TooLarge
from noisewright.workload.forms import matrix_files
from noisewright.workload.forms.matrix_files import read_matrix

MATRIX = np.tril(np.ones((4, 3)))
WRITERS = {
    "w.npy": np.save,
    "w.npz": np.savez,
    "sparse.npz": lambda path, matrix: sp.save_npz(path, sp.csr_array(matrix)),
    "w.mtx": lambda path, matrix: scipy.io.mmwrite(path, sp.coo_array(matrix)),
    "array.mtx": scipy.io.mmwrite,
    "w.csv": lambda path, matrix: np.savetxt(path, matrix, delimiter=","),
    "semicolons.csv": lambda path, matrix: np.savetxt(path, matrix, delimiter=";"),
    "w.tsv": lambda path, matrix: np.savetxt(path, matrix, delimiter="\t"),
}


@pytest.mark.parametrize(("name", "write"), WRITERS.items(), ids=list(WRITERS))
def test_every_format_is_read_and_planned(
    name, write, tmp_path: Path, monkeypatch
) -> None:
    monkeypatch.chdir(tmp_path)
    write(name, MATRIX)
    assert nw.workload(Path(name)).text() == nw.workload(MATRIX).text()
    result = CliRunner().invoke(main, ["plan", name, "--rho", "1", "--json"])
    assert result.exit_code == 0, result.output
    assert (
        json.loads(result.stdout)["queries"],
        json.loads(result.stdout)["size"],
    ) == (4, 3)


def test_text_never_reads_a_file(tmp_path: Path) -> None:
    np.save(tmp_path / "w.npy", MATRIX)
    with pytest.raises(NoisewrightError, match="unknown part"):
        nw.workload(str(tmp_path / "w.npy"))


def hostile(name: str) -> bytes:
    if name == "pickled.npy":
        return b"\x93NUMPY\x01\x00v\x00{'descr': '|O', 'fortran_order': False, 'shape': (1, 1), }"
    if name == "huge.npy":  # promises a terabyte
        header = (
            b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000, 131072), }"
        )
        return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header
    if name == "huge.mtx":
        return b"%%MatrixMarket matrix array real general\n1000000 131072\n1\n"
    return {"header.csv": b"a,b\n1,2\n", "cut.npz": b"PK\x03\x04", "none.npy": b""}[
        name
    ]


@pytest.mark.parametrize(
    "name", ["pickled.npy", "huge.npy", "huge.mtx", "header.csv", "cut.npz", "none.npy"]
)
def test_hostile_files_are_refused(name: str, tmp_path: Path) -> None:
    path = tmp_path / name
    path.write_bytes(hostile(name))
    with pytest.raises((FileFormatError, TooLarge)):
        read_matrix(path)


def test_large_archives_are_refused_before_they_are_unpacked(
    tmp_path: Path, monkeypatch
) -> None:
    np.savez_compressed(tmp_path / "w.npz", np.zeros((100, 100)))
    monkeypatch.setattr(matrix_files, "_MOST_ENTRIES", 5000)
    with pytest.raises(TooLarge):
        read_matrix(tmp_path / "w.npz")


@pytest.mark.parametrize(
    "text", ["prefix:6", "prefix:3*identity:2", "marginals:2^3:<=2"]
)
def test_strategies_are_arrays(text: str, tmp_path: Path) -> None:
    f = nw.factorize(text)
    strategy, back = np.asarray(f.strategy), np.asarray(f.reconstruction)
    asked = np.asarray(f.workload)
    x = np.arange(float(f.workload.size))
    np.testing.assert_allclose(back @ strategy, asked, atol=1e-6)
    np.testing.assert_allclose(
        np.asarray(f.reconstruction @ f.strategy), asked, atol=1e-6
    )
    np.testing.assert_allclose(f.strategy @ x, strategy @ x, atol=1e-9)
    np.testing.assert_allclose(x @ f.strategy.T, strategy @ x, atol=1e-9)
    np.testing.assert_allclose(f.strategy @ np.eye(len(x)), strategy, atol=1e-9)
    np.save(tmp_path / "a.npy", f.strategy)
    np.testing.assert_array_equal(np.load(tmp_path / "a.npy"), strategy)
    assert np.asarray(f.strategy, dtype=np.float32).dtype == np.float32


@pytest.mark.parametrize("norm", [2, 4, "inf"])
def test_the_dual_witness_proves_the_bound_by_itself(norm) -> None:
    f = nw.factorize("prefix:7+total:7", norm)
    asked, witness = np.asarray(f.workload), f.certificate
    a, b = witness.row_weights(), witness.column_weights()
    a = np.ones(len(asked)) if a is None else a
    # Σb = 1 and ‖a‖ = 1 in the exponent dual to norm/2 make the point feasible.
    dual = {2: np.inf, 4: 2, "inf": 1}[norm]
    assert b.sum() == pytest.approx(1)
    assert np.linalg.norm(a, dual) == pytest.approx(1)
    proved = np.linalg.svd(
        np.sqrt(a)[:, None] * asked * np.sqrt(b), compute_uv=False
    ).sum()
    power = 0 if norm == "inf" else 1 / norm
    assert f.lower_bound == pytest.approx(proved * len(asked) ** -power, rel=1e-9)
