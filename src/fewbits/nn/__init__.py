"""What the neural hashers share: networks, gradient estimators, losses, the training loop; not needed for encoding."""
