"""The evaluation of the paper, reproduced in virtual time (spec section 6)."""
