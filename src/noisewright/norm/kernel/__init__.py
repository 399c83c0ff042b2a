"""The numerical solver of every γ_(p), and the certificate that does not share its code."""
