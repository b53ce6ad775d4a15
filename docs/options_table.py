"""The options table of docs/spark.md, made from the options themselves. `python docs/options_table.py` writes it."""

from __future__ import annotations

from pathlib import Path

from sublet.spark.options import OPTIONS

DOCUMENT = Path(__file__).with_name("spark.md")
BEGIN, END = "<!-- options -->", "<!-- /options -->"


def table() -> str:
    rows = ["| option | default | for | meaning |", "|---|---|---|---|"]
    for option in OPTIONS:
        default = f"`{option.default}`" if option.default is not None else ""
        rows.append(f"| `{option.name}` | {default} | {', '.join(option.uses)} | {option.meaning} |")
    return "\n".join(rows)


def with_table(text: str) -> str:
    """The document with the table between its marks."""
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{table()}\n{END}{after}"


if __name__ == "__main__":
    DOCUMENT.write_text(with_table(DOCUMENT.read_text()))
