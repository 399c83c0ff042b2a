"""Arrays by what they hold: the words of every signature that takes or returns one."""

from typing import Any

import numpy as np
import numpy.typing as npt

FloatArray = npt.NDArray[np.float64]
ComplexArray = npt.NDArray[np.complex128]
IntArray = npt.NDArray[np.int64]
SignArray = npt.NDArray[np.int8]
ByteArray = npt.NDArray[np.uint8]
WordArray = npt.NDArray[np.uint64]
BoolArray = npt.NDArray[np.bool_]
IndexArray = npt.NDArray[np.intp]
TextArray = npt.NDArray[np.str_]
ObjectArray = npt.NDArray[np.object_]
Array = npt.NDArray[Any]
