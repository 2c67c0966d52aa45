"""The values of one scrape."""

from __future__ import annotations

from prometheus_client.parser import text_string_to_metric_families


class Scraped:
    """What one scrape brought; names are without the prefix."""

    def __init__(self, text: str, prefix: str = "anarchon_") -> None:
        self.text = text
        self.families = list(text_string_to_metric_families(text))
        samples = [sample for family in self.families for sample in family.samples]
        self.samples = [sample for sample in samples if sample.name.startswith(prefix)]
        self.values = {
            (sample.name.removeprefix(prefix), tuple(sorted(sample.labels.items()))): sample.value
            for sample in self.samples
        }
        assert len(self.values) == len(self.samples), "a series is there twice"

    def __call__(self, name: str, **labels: str) -> float | None:
        """Return one value; None when there is no such series."""
        return self.values.get((name, tuple(sorted({"scheduler": "anarchon", **labels}.items()))))

    def counted(self, name: str, *labels: str) -> dict[tuple[str, ...], float]:
        """Return what isn't 0 of one metric, by the values of these labels."""
        found: dict[tuple[str, ...], float] = {}
        for (sample, pairs), value in self.values.items():
            if sample == name and value:
                key = tuple(dict(pairs)[label] for label in labels)
                assert key not in found, f"{key} is there twice"
                found[key] = value
        return found

    def histogram(self, name: str, **labels: str) -> tuple[dict[float, float], float, float]:
        """Return what each bucket holds that holds something, then the sum and the count."""
        wanted = {"scheduler": "anarchon", **labels}
        bounds = {}
        for (sample, pairs), value in self.values.items():
            found = dict(pairs)
            if sample == f"{name}_bucket" and found.items() >= wanted.items():
                bounds[float(found["le"])] = value
        inside, below = {}, 0.0
        for bound, value in sorted(bounds.items()):
            if value != below:
                inside[bound] = value - below
            below = value
        return inside, self(f"{name}_sum", **labels), self(f"{name}_count", **labels)

    def jobs(self) -> set[str]:
        return {s.labels["job_name"] for s in self.samples if "job_name" in s.labels}
