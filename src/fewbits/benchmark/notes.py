"""What has to be told beside figures so that nobody takes them for more than they are."""

from __future__ import annotations

from fewbits.hashers.registry import METHODS, make_hasher

PAPERS_ALPHA = (0.01, 0.1)
CHOSEN_WITH_LABELS = (
    f"{METHODS['bernoulli-vae'].title} learns without labels, but its settings were chosen with the labels of the"
    " validation parts (docs/defaults.md)."
)
OF_OTHER_WORDS = {  # data sets whose features are not the published ones: a row is judged by its place alone
    "tmc": "Ours has 500 binary words where the published one has 20,000 with frequencies, so the figures themselves"
    " cannot be compared, at most the order of the methods."
}


def paper_presets() -> str:
    """Where our presets of the paper's supervised systems differ from it, or fill in what it does not tell."""
    psh, nash = (make_hasher(name, 8).get_params() for name in ("psh-arm", "nash-dn-s"))
    (first, last), (low, high) = psh["label_weight"], PAPERS_ALPHA
    return (
        f"PSH-ARM, PSH-GS and NASH-DN-S: alpha, the weight of the classifier, rises from {first:g} to {last:g},"
        f" searched on ng20's validation part at 32 bits; with the paper's {low:g} to {high:g} the classifier"
        " hardly counts beside the words' term when every term is a mean per document."
        f" Beta ({psh['pair_weight']:g}) weighs the mean over pairs, while the other terms are means over documents."
        f" The paper tells neither epochs (here {psh['epochs']}, for NASH-DN-S {nash['epochs']}) nor batch size (here"
        f" {psh['batch_size']})."
    )
