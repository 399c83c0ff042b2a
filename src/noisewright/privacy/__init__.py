"""How people are protected: budgets, calibration, accounting and exact noise on the integers."""
