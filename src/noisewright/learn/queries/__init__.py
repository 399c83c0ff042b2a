"""Statistical queries: who answers them, who learns from them, and how many a class takes."""
