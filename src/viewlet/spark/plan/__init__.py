"""From trigger programs to distributed programs, in pure Python (thesis, chapter 5)."""
