"""What trains from scratch."""

import torch
from torch import nn

ENDS = ("model.embed_tokens", "lm_head")


def optimizers(model: nn.Module) -> list[torch.optim.Optimizer]:
    """Muon for the matrices, AdamW for the rest, which embedding and head belong to."""
    named = list(model.named_parameters())
    matrices = [weight for name, weight in named if weight.ndim == 2 and not name.startswith(ENDS)]
    others = [weight for name, weight in named if weight.ndim != 2 or name.startswith(ENDS)]
    return [
        torch.optim.Muon(matrices, weight_decay=0.01, adjust_lr_fn="match_rms_adamw"),
        torch.optim.AdamW(others, betas=(0.9, 0.95), weight_decay=0.0),
    ]
