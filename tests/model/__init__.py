"""One random history for every store, judged by the rules in Python: their model.

`author` makes histories, `steps` says what they are made of, `stores` has the stores on
clocks that are moved by hand, `checker` compares every answer and shortens what fails.
"""
