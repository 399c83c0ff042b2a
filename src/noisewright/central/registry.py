"""One list of mechanisms: `plan`, `compare`, the tests and the docs all read it.

When a mechanism applies and how it is planned stand beside what it is.
"""

from __future__ import annotations

from noisewright.central.baselines import BASELINES
from noisewright.central.carry.plan import CARRY
from noisewright.central.gaussian.products import (
    GAUSSIAN_STRATEGY,
    SPLIT,
)
from noisewright.central.gaussian.residual import RESIDUAL
from noisewright.central.gaussian.shared import SHARED_BASIS
from noisewright.central.geometry.fitted_plans import (
    COARSE_JL,
    JL,
    PROJECTION,
)
from noisewright.central.geometry.hardt_talwar import HARDT_TALWAR
from noisewright.central.geometry.k_norm_plan import K_NORM
from noisewright.central.laplace.strategy import LAPLACE_STRATEGY

CENTRAL = {
    mechanism.name: mechanism
    for mechanism in (
        RESIDUAL,
        GAUSSIAN_STRATEGY,
        SHARED_BASIS,
        SPLIT,
        CARRY,  # before it: bounds on Laplace strategies end no search for other noise
        LAPLACE_STRATEGY,
        K_NORM,
        HARDT_TALWAR,
        PROJECTION,
        JL,
        COARSE_JL,
        *BASELINES,
    )
}
