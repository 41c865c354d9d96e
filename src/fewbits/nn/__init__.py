"""Networks, losses, gradient estimators and training, on torch; imported only when a neural method is fitted."""
