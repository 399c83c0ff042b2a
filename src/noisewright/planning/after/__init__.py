"""What a release can say later at no cost: further questions, quantiles, made-up people."""
