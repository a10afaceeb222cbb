"""The paper's evaluation (spec section 6) in virtual time: parts that are measured, kept, drawn and reported."""
