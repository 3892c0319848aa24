"""Networks of timm and of transformers under our head."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from optional import needed
from torch import nn
from torch.nn import functional as F

from ncalr import extras
from ncalr.errors import BadInput, MissingExtra, UnknownName
from ncalr.learn.nets import network
from ncalr.learn.nets.external import (
    External,
    Images,
    Pooled,
    Tokens,
    hf_network,
    read_name,
    timm_network,
    tokenise,
)
from ncalr.learn.tap import Tap


def step(model, x):
    """A step of training, strong enough to move whatever can move."""
    model.train()
    optimiser = torch.optim.SGD([p for p in model.parameters() if p.requires_grad], lr=0.5)
    F.cross_entropy(model(x), torch.arange(len(x)) % 2).backward()
    optimiser.step()


def moved(model, x):
    """The names of what a step of training changes."""
    before = {name: value.clone() for name, value in model.state_dict().items()}
    step(model, x)
    return {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}


def check_frozen(model, x):
    """Only the head moves, the trunk stays in evaluation mode, and nothing of it is kept for a backward pass."""
    assert moved(model, x) == {"head.weight", "head.bias"}
    model.train()
    assert model.head.training
    assert not any(module.training for module in model.trunk.modules())
    assert not any(parameter.requires_grad for parameter in model.trunk.parameters())
    assert model(x).grad_fn is not None
    features, _ = Tap(model)(model, x)
    assert features.grad_fn is None


# -- without the extras ---------------------------------------------------------------------------------------------


def trunk():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.Dropout(0.5), nn.AdaptiveAvgPool2d(1), nn.Flatten())
    return Images(net, 3, 3, None)


def test_a_frozen_trunk_stays_as_it_is():
    check_frozen(External(trunk(), 4, 2, reads="images", frozen=True, dropout=0.0), torch.randn(6, 3, 8, 8))


def test_a_free_trunk_learns():
    model = External(trunk(), 4, 2, reads="images", frozen=False, dropout=0.0)
    names = moved(model, torch.randn(6, 3, 8, 8))
    assert {"trunk.net.0.weight", "trunk.net.1.running_mean", "head.weight"} <= names
    model.eval()
    assert not any(module.training for module in model.modules())
    model.train()
    assert all(module.training for module in model.modules())


def test_gradients_of_the_features_can_be_had_from_a_frozen_trunk():
    """SISOM weighs features by their gradients, in evaluation mode."""
    model = External(trunk(), 4, 2, reads="images", frozen=True, dropout=0.0).eval()
    heard = []
    model.head.register_forward_pre_hook(lambda _, inputs: heard.append(inputs[0]))
    (slope,) = torch.autograd.grad(model(torch.randn(6, 3, 8, 8))[:, 1].sum(), heard)
    torch.testing.assert_close(slope, model.head.weight[1].expand(6, 4))


def test_dropout_is_before_the_last_layer():
    model = External(trunk(), 4, 2, reads="images", frozen=True, dropout=1.0)
    x = torch.randn(6, 3, 8, 8)
    torch.testing.assert_close(model(x), model.head.bias.expand(6, 2))
    assert not torch.equal(model.eval()(x), model.head.bias.expand(6, 2))


def test_images_are_resized_and_grey_ones_shown_to_every_channel():
    seen = Images(nn.Identity(), 1, 3, (12, 10))
    x = torch.randn(2, 1, 6, 5)
    grey = F.interpolate(x, (12, 10), mode="bilinear", align_corners=False)
    torch.testing.assert_close(seen(x), torch.cat([grey] * 3, 1))
    flat = torch.full((2, 1, 40, 40), 0.7)
    torch.testing.assert_close(seen(flat), torch.full((2, 3, 12, 10), 0.7))
    spot = torch.zeros(1, 1, 48, 40)
    spot[0, 0, 24, 20] = 1.0  # between the pixels that plain sampling would look at
    assert seen(spot).sum() > 0
    same = torch.randn(2, 1, 12, 10)
    torch.testing.assert_close(seen(same)[:, 2], same[:, 0], rtol=0, atol=0)


def test_images_of_other_channels_are_refused():
    with pytest.raises(BadInput, match=r"made for images \(n, 3, height, width\), got shape \(2, 1, 8, 8\)"):
        trunk()(torch.zeros(2, 1, 8, 8))


class Words(nn.Module):
    """A network of transformers in two lines: what it was asked is kept."""

    def forward(self, input_ids, attention_mask):
        self.asked = input_ids, attention_mask
        return SimpleNamespace(last_hidden_state=torch.stack([input_ids, input_ids**2], -1).double())


def test_texts_are_averaged_over_what_is_not_padding():
    net = Words()
    tokens = Tokens(net, padding=1)
    x = torch.tensor([[5, 7, 1, 1], [2, 3, 4, 3], [1, 1, 1, 1]], dtype=torch.int32)
    expected = [[6.0, 37.0], [3.0, 9.5], [1.0, 1.0]]
    assert tokens(x).tolist() == expected
    assert net.asked[0].dtype == torch.int64
    # The last text is empty: its first token is looked at all the same, or a softmax over nothing would give NaN.
    assert net.asked[1].tolist() == [[1, 1, 0, 0], [1, 1, 1, 1], [1, 0, 0, 0]]


def test_tokens_must_be_whole_numbers():
    with pytest.raises(BadInput, match=r"reads token ids, whole numbers \(n, length\), got torch.float32 .*tokenise"):
        Tokens(Words(), padding=0)(torch.zeros(2, 4))


class Sees(nn.Module):
    """A vision network that gives what it is told to give."""

    def __init__(self, hidden, pooled=None, pooler=None, cls=False):
        super().__init__()
        self.output = SimpleNamespace(last_hidden_state=hidden, pooler_output=pooled)
        if pooler is not None:
            self.pooler = pooler
        if cls:
            self.cls_token = nn.Parameter(torch.zeros(1))

    def forward(self, pixel_values):
        return self.output


def test_images_are_pooled_as_the_network_pools_them():
    maps, rows = torch.randn(2, 4, 3, 3), torch.randn(2, 5, 4)
    pooled = torch.randn(2, 4, 1, 1)
    x = torch.zeros(2, 3, 8, 8)
    assert torch.equal(Pooled(Sees(maps, pooled, nn.AdaptiveAvgPool2d(1)))(x), pooled[:, :, 0, 0])
    torch.testing.assert_close(Pooled(Sees(maps))(x), maps.mean((2, 3)))
    torch.testing.assert_close(Pooled(Sees(rows))(x), rows.mean(1))
    # A pooler that learns may not be among the pretrained weights, so the class token is taken.
    assert torch.equal(Pooled(Sees(rows, pooled, nn.Linear(4, 4), cls=True))(x), rows[:, 0])


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("timm:resnet18", ("timm", "resnet18", {})),
        (
            "timm:resnet18.a1_in1k(pretrained=true, size=64)",
            ("timm", "resnet18.a1_in1k", {"pretrained": True, "size": 64}),
        ),
        ("hf:google/vit-base-patch16-224(frozen=False)", ("hf", "google/vit-base-patch16-224", {"frozen": False})),
        (" hf:/my models (new)/bert(pretrained=false) ", ("hf", "/my models (new)/bert", {"pretrained": False})),
        ("timm:hf-hub:timm/resnet18 (dropout=0.5)", ("timm", "hf-hub:timm/resnet18", {"dropout": 0.5})),
    ],
)
def test_names_are_read(text, read):
    assert read_name(text) == read


@pytest.mark.parametrize(
    ("text", "error", "message"),
    [
        ("timm:", BadInput, r"cannot read 'timm:'; write it as timm:NAME or timm:NAME\(option=value"),
        ("hf", BadInput, r"write it as hf:NAME"),
        (
            "timm:resnet18(frosen=true)",
            UnknownName,
            r"no option of network 'timm:resnet18' 'frosen'\. Did you mean 'frozen'",
        ),
        ("hf:bert(frozen=yes)", BadInput, r"network 'hf:bert': frozen must be true or false, got 'yes'"),
        ("hf:bert(true)", BadInput, r"options need names"),
    ],
)
def test_names_that_cannot_be_read(text, error, message):
    with pytest.raises(error, match=message):
        network(text, 2, (8, 8, 3))


def test_other_networks_are_found_as_before():
    assert network("mlp(widths=[4])", 2, (5,))(torch.zeros(1, 5)).shape == (1, 2)
    with pytest.raises(UnknownName, match=r"no network 'resnet19'\. Did you mean 'resnet18'"):
        network("resnet19", 2, (8, 8, 3))


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setattr(extras, "find_spec", lambda name: None)
    with pytest.raises(MissingExtra, match=r"timm:resnet18 needs timm; install it with: pip install 'ncalr\[timm\]'"):
        network("timm:resnet18", 2, (8, 8, 3))
    with pytest.raises(MissingExtra, match=r"uncased needs transformers; install it with: pip install 'ncalr\[hf\]'"):
        network("hf:bert-base-uncased", 2, (16,))
    with pytest.raises(MissingExtra, match=r"pip install 'ncalr\[hf\]'"):
        tokenise("bert-base-uncased", ["a"])


def test_shapes_are_looked_at_before_anything_is_loaded():
    with pytest.raises(BadInput, match=r"timm:resnet18 takes images \(height, width, channels\), .* shape \(16,\)"):
        timm_network("resnet18", 2, (16,))
    with pytest.raises(BadInput, match=r"images \(height, width, channels\) or token ids \(length,\), .* \(4, 4\)"):
        hf_network("bert", 2, (4, 4))


@pytest.mark.parametrize(("texts", "message"), [("a text", r"got str with 'a text'"), (["a", None], r"list with None")])
def test_texts_are_looked_at(texts, message):
    with pytest.raises(BadInput, match=message):
        tokenise("bert", texts)


# -- transformers ---------------------------------------------------------------------------------------------------

SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 16}


@pytest.fixture(scope="module")
def transformers():
    return needed("transformers", "hf")


@pytest.fixture(scope="module")
def bert(transformers, tmp_path_factory):
    """A folder with a tiny BERT and its tokeniser."""
    tokenizers = needed("tokenizers", "hf")
    folder = tmp_path_factory.mktemp("models") / "tiny.bert-1"
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "good", "bad", "film", "a", "very"]
    rules = tokenizers.Tokenizer(tokenizers.models.WordLevel({word: i for i, word in enumerate(words)}, "[UNK]"))
    rules.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    rules.post_processor = tokenizers.processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    special = {"pad_token": "[PAD]", "unk_token": "[UNK]", "cls_token": "[CLS]", "sep_token": "[SEP]"}
    transformers.PreTrainedTokenizerFast(tokenizer_object=rules, **special).save_pretrained(folder)
    torch.manual_seed(0)
    config = transformers.BertConfig(vocab_size=len(words), max_position_embeddings=12, **SMALL)
    transformers.BertModel(config).half().save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="module")
def vit(transformers, tmp_path_factory):
    """A folder with a tiny vision transformer."""
    folder = tmp_path_factory.mktemp("models") / "vit"
    torch.manual_seed(0)
    transformers.ViTModel(transformers.ViTConfig(image_size=16, patch_size=8, **SMALL)).save_pretrained(folder)
    return str(folder)


TEXTS = ["a good film", "very very bad", "", "a strange one and a very very very long one"]


def test_texts_become_token_ids(bert):
    tokens = tokenise(bert, TEXTS, length=6)
    assert tokens.dtype == np.int32
    assert tokens.tolist() == [
        [2, 7, 4, 6, 3, 0],
        [2, 8, 8, 5, 3, 0],
        [2, 3, 0, 0, 0, 0],
        [2, 7, 1, 1, 1, 3],
    ]
    assert tokenise("hf:" + bert, TEXTS, length=6).tolist() == tokens.tolist()
    assert tokenise(bert, [], length=6).shape == (0, 6)


def test_texts_in_several_blocks_are_the_same_texts(bert, monkeypatch):
    whole = tokenise(bert, TEXTS, length=6)
    monkeypatch.setattr("ncalr.learn.nets.external._BLOCK", 3)
    assert tokenise(bert, TEXTS, length=6).tolist() == whole.tolist()


def test_a_text_network_gives_what_transformers_gives(transformers, bert):
    tokens = torch.from_numpy(tokenise(bert, TEXTS, length=8))
    model = network(f"hf:{bert}", 3, (8,)).eval()
    reference = transformers.AutoModel.from_pretrained(bert).float().eval()
    expected = []
    with torch.no_grad():
        for row in tokens:  # each text alone, without padding
            hidden = reference(input_ids=row[row != 0].long()[None]).last_hidden_state[0]
            expected.append(model.head(hidden.mean(0)))
        torch.testing.assert_close(model(tokens), torch.stack(expected), atol=1e-5, rtol=1e-4)
    assert next(model.parameters()).dtype == torch.float32  # stored in half precision
    assert model.reads == "tokens"
    assert Tap(model).name == "head"


def test_pretrained_weights_are_those_of_the_folder(transformers, bert):
    reference = transformers.AutoModel.from_pretrained(bert).float().state_dict()
    loaded = network(f"hf:{bert}", 3, (8,)).trunk.net.state_dict()
    fresh = network(f"hf:{bert}(pretrained=false)", 3, (8,)).trunk.net.state_dict()
    name = "encoder.layer.0.attention.self.query.weight"
    assert torch.equal(loaded[name], reference[name])
    assert not torch.equal(fresh[name], reference[name])


def test_a_frozen_text_network_trains_its_head_alone(bert):
    tokens = torch.from_numpy(tokenise(bert, TEXTS, length=8))
    check_frozen(network(f"hf:{bert}(frozen=true)", 2, (8,)), tokens)
    assert "trunk.net.embeddings.word_embeddings.weight" in moved(network(f"hf:{bert}", 2, (8,)), tokens)


def test_texts_that_are_too_long_are_refused(transformers, bert, tmp_path):
    with pytest.raises(BadInput, match=r"reads at most 12 tokens, the pool's texts have 13: tokenise them anew"):
        network(f"hf:{bert}", 2, (13,))
    config = transformers.RobertaConfig(vocab_size=9, max_position_embeddings=12, pad_token_id=1, **SMALL)
    config.save_pretrained(tmp_path)
    with pytest.raises(BadInput, match=r"reads at most 10 tokens, the pool's texts have 11"):
        network(f"hf:{tmp_path}(pretrained=false)", 2, (11,))
    assert network(f"hf:{tmp_path}(pretrained=false)", 2, (10,))(torch.full((1, 10), 5)).shape == (1, 2)


def test_a_network_without_padding_takes_the_end_of_the_text(transformers, tmp_path):
    sizes = {"n_embd": 16, "n_layer": 1, "n_head": 2, "n_positions": 12}
    transformers.GPT2Config(vocab_size=9, eos_token_id=8, bos_token_id=8, **sizes).save_pretrained(tmp_path)
    model = network(f"hf:{tmp_path}(pretrained=false)", 2, (6,)).eval()
    assert model.trunk.padding == 8
    assert model.trunk.net(torch.tensor([[3, 4]])).past_key_values is None
    with torch.no_grad():
        short, long = torch.tensor([[3, 4, 8, 8]]), torch.tensor([[3, 4, 8, 8, 8, 8]])
        torch.testing.assert_close(model(short), model(long))
    transformers.GPT2Config(vocab_size=9, eos_token_id=None, bos_token_id=None, **sizes).save_pretrained(tmp_path)
    with pytest.raises(BadInput, match=r"names no padding: set pad_token_id in its config.json"):
        network(f"hf:{tmp_path}(pretrained=false)", 2, (6,))


def test_a_vision_network_gives_what_transformers_gives(transformers, vit):
    model = network(f"hf:{vit}", 3, (16, 16, 3)).eval()
    x = torch.randn(4, 3, 16, 16)
    with torch.no_grad():
        hidden = transformers.AutoModel.from_pretrained(vit).eval()(pixel_values=x).last_hidden_state
        torch.testing.assert_close(model(x), model.head(hidden[:, 0]))
    assert model.reads == "images"
    assert Tap(model).name == "head"


def test_images_are_resized_to_what_the_network_takes(vit):
    model = network(f"hf:{vit}(frozen=true)", 3, (10, 12, 1)).eval()
    x = torch.randn(4, 1, 10, 12)
    large = F.interpolate(x, (16, 16), mode="bilinear", align_corners=False)
    torch.testing.assert_close(model(x), model(large))
    check_frozen(model, x)


def test_images_the_network_cannot_take_are_refused(vit):
    with pytest.raises(BadInput, match=r"takes images with 3 channels, the pool's have 4"):
        network(f"hf:{vit}", 3, (16, 16, 4))
    with pytest.raises(BadInput, match=r"cannot read items of shape \(3, 16, 16\); it was made for images of size 16 "):
        network(f"hf:{vit}(size=24)", 3, (16, 16, 3))
    with pytest.raises(BadInput, match=r"size must be a number of pixels, got -1"):
        network(f"hf:{vit}(size=-1)", 3, (16, 16, 3))
    fresh = network(f"hf:{vit}(pretrained=false)", 3, (16, 16, 4))
    assert fresh(torch.zeros(2, 4, 16, 16)).shape == (2, 3)


def test_a_convolutional_network_takes_any_size(transformers, tmp_path):
    config = transformers.ResNetConfig(embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic")
    transformers.ResNetModel(config).save_pretrained(tmp_path)
    model = network(f"hf:{tmp_path}", 3, (40, 40, 3)).eval()
    x = torch.randn(2, 3, 40, 40)
    with torch.no_grad():
        pooled = transformers.AutoModel.from_pretrained(tmp_path).eval()(pixel_values=x).pooler_output
        torch.testing.assert_close(model(x), model.head(pooled.flatten(1)))
    check_frozen(network(f"hf:{tmp_path}(frozen=true)", 2, (40, 40, 3)), x)


def test_networks_of_images_and_texts_are_refused(transformers, tmp_path):
    transformers.CLIPConfig().save_pretrained(tmp_path)
    with pytest.raises(BadInput, match=r"reads images together with texts; .*timm:vit_base_patch16_clip_224"):
        network(f"hf:{tmp_path}", 2, (32, 32, 3))


def test_a_network_that_is_not_there(transformers, tmp_path):
    with pytest.raises(BadInput, match=r"cannot be loaded; expected a folder with a config.json, or a name on hugg"):
        network(f"hf:{tmp_path}", 2, (8,))


# -- timm -----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def timm():
    return needed("timm", "timm")


def test_a_convolutional_network_of_timm_takes_images_as_they_are(timm):
    torch.manual_seed(0)
    model = network("timm:test_resnet", 3, (33, 40, 1)).eval()
    x = torch.randn(2, 1, 33, 40)
    assert model.trunk.size is None
    assert model.trunk.net.conv1[0].in_channels == 1
    with torch.no_grad():
        torch.testing.assert_close(model(x), model.head(model.trunk.net(x)))
    assert Tap(model).name == "head"
    sized = network("timm:test_resnet(size=48)", 3, (33, 40, 1))
    assert sized.trunk.size == (48, 48)


def test_a_vision_transformer_of_timm_gets_the_size_it_was_made_for(timm):
    model = network("timm:test_vit(frozen=true)", 2, (24, 24, 3)).eval()
    assert model.trunk.size == (160, 160)
    x = torch.randn(2, 3, 24, 24)
    with torch.no_grad():
        large = F.interpolate(x, (160, 160), mode="bilinear", align_corners=False)
        torch.testing.assert_close(model(x), model.head(model.trunk.net(large)))


def test_a_frozen_network_of_timm_trains_its_head_alone(timm):
    x = torch.randn(4, 3, 32, 32)
    check_frozen(network("timm:test_resnet(frozen=true)", 2, (32, 32, 3)), x)
    names = moved(network("timm:test_resnet", 2, (32, 32, 3)), x)
    assert {"trunk.net.bn1.running_mean", "trunk.net.conv1.0.weight"} <= names


def test_a_network_with_a_hidden_layer_in_its_head(timm):
    """Its features are as wide as that layer, not as its last feature map."""
    model = network("timm:mobilenetv3_small_050", 2, (32, 32, 3)).eval()
    assert model.head.in_features == 1024
    assert model(torch.zeros(1, 3, 32, 32)).shape == (1, 2)


def test_names_that_timm_does_not_know(timm):
    with pytest.raises(UnknownName, match=r"no network in timm 'resnet19'\. Did you mean 'resnet\d+.*list_models"):
        network("timm:resnet19", 2, (32, 32, 3))


def test_pretrained_weights_of_timm_are_asked_for(timm, monkeypatch):
    asked = {}

    def create(name, **options):
        asked.update(options, name=name)
        raise OSError("no\nconnection")

    monkeypatch.setattr(timm, "create_model", create)
    with pytest.raises(
        BadInput, match=r"timm:resnet18 cannot be loaded; expected a name .* \(OSError: no connection\)"
    ):
        network("timm:resnet18(pretrained=true)", 2, (32, 32, 3))
    assert asked == {"name": "resnet18", "pretrained": True, "num_classes": 0, "in_chans": 3}
