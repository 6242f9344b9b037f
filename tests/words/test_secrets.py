"""What of a job is stored and shown: not what it keeps in variables, nor what gives access to a URL."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from clusterkit.words import wire
from clusterkit.words.model import ProgramKind
from clusterkit.words.secrets import (
    HIDDEN,
    has_credentials,
    hidden_in,
    is_harmless,
    masked,
    without_credentials,
    without_secret_arguments,
    without_secrets,
)
from tests.histories import build_job


@pytest.mark.parametrize(
    "name",
    [
        *("OMP_NUM_THREADS", "TF_USE_LEGACY_KERAS", "TF_CONFIG", "TF2_BEHAVIOR", "CUDA_VISIBLE_DEVICES", "XLA_FLAGS"),
        *("KERAS_BACKEND", "PYTHONPATH", "PYTHONHASHSEED", "LD_LIBRARY_PATH", "PATH", "HOME", "PWD", "LC_ALL", "TZ"),
        *("GRPC_VERBOSITY", "NCCL_DEBUG", "MALLOC_ARENA_MAX", "XDG_CACHE_HOME", "CLUSTERKIT_HOME"),
    ],
)
def test_variables_that_configure_libraries_are_shown(name: str) -> None:
    """They explain how a run went, and hold no secrets."""
    assert masked({name: "value"}) == {name: "value"}


@pytest.mark.parametrize(
    "name",
    [
        *(
            "DB_PASS",
            "MYSQL_PWD",
            "HF_AUTH",
            "DB_PASSWORD",
            "GITHUB_TOKEN",
            "AWS_ACCESS_KEY_ID",
            "api_key",
            "PGPASSFILE",
        ),
        *("SLACK_WEBHOOK", "DATABASE_URL", "LEVEL", "DATA_DIR", "http_proxy", "tf_config", "TF", "XTF_A", "PATHS"),
        *("TF_TOKEN_app_terraform_io", "TF_VAR_db_password", "TF_API_KEY", "PYTHON_KEYRING_BACKEND", "JAX_auth", ""),
        *("CLUSTERKIT_AGENT_KEY", "GRPC_PROXY", "GOOGLE_APPLICATION_CREDENTIALS", "LC_ALL\n", "OMP_x\nSECRET"),
    ],
)
def test_any_other_variable_is_hidden(name: str) -> None:
    """Whatever it is called: nobody knows the names of all secrets."""
    assert masked({name: "value"}) == {name: HIDDEN}
    assert masked({name: "value"}, show=True) == {name: "value"}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://u:hush@db/x", "postgres://***@db/x"),
        ("postgres://u:hu@sh@db/x", "postgres://***@db/x"),
        ("postgres://u:hu/sh#?@db:5432/x", "postgres://***@db:5432/x"),
        ("redis://:hush@h1:1,redis://:hush@h2:2", "redis://***@h2:2"),
        ("https://hush@github.com/a/b.git", "https://***@github.com/a/b.git"),
        ("see https://u:hush@a/ and https://b/?q=1", "see https://***@a/ and https://b/?q=1"),
        ("https://b/?q=1&api_key=hush&x=2", "https://b/?q=1&api_key=***&x=2"),
        ("https://b/?X-Amz-Signature=hush", "https://b/?X-Amz-Signature=***"),
        ("https://b/c?sig=hush#part", "https://b/c?sig=***#part"),
        ("http://127.0.0.1:80/run/x#token=hush", "http://127.0.0.1:80/run/x#token=***"),
        ("https://hooks.slack.com/services/T0/B0/hush", "https://hooks.slack.com/***"),
        ("curl -d @- 'https://discord.com/api/webhooks/1/hush'", "curl -d @- 'https://discord.com/***'"),
        ("https://api.telegram.org/bot1:hush/sendMessage", "https://api.telegram.org/***"),
        ("--db=postgres://u:hush@db", "--db=postgres://***@db"),
        ('{"url": "mysql://u:hu"sh@db"}', '{"url": "mysql://***@db"}'),
    ],
)
def test_credentials_in_urls_are_hidden(text: str, shown: str) -> None:
    """Users with passwords, parameters that are named so, and the paths of webhooks."""
    assert without_credentials(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        *(
            "",
            "train.py",
            "me@host:path",
            "https://host:8080/a@1.2",
            "git+https://github.com/org/repo@v1.2",
            "s3://a/b",
        ),
        *("http://[::1]:80/x", "https://b/?q=1&step=2", "gs://bucket/model", "file:///home/me/data", "a://"),
    ],
)
def test_what_has_no_credentials_stays(text: str) -> None:
    """Of URLs and of everything else."""
    assert without_credentials(text) == text


secrets = st.text(st.characters(exclude_categories=["Cs", "Z", "Cc"]), min_size=1, max_size=8).map("hush{}hush".format)
words = st.text("ab=&?#:/@'\" .-\n", max_size=12)


@given(before=words, user=st.text("uv_", max_size=3), secret=secrets, after=st.text("abc./", max_size=8))
def test_no_password_of_a_url_is_left(before: str, user: str, secret: str, after: str) -> None:
    """Whatever characters are in it and around it. Nothing is left to hide then."""
    shown = without_credentials(f"{before}://{user}:{secret}@host/{after}")
    assert "hush" not in shown
    assert without_credentials(shown) == shown


@given(text=st.text(max_size=300) | st.text("ab:/@?&#=hok \n", max_size=300))
def test_any_text_can_be_shown(text: str) -> None:
    """Without an error, and the same a second time."""
    once = without_credentials(text)
    assert without_credentials(once) == once


@pytest.mark.parametrize("piece", ["://a:b", "http://", "?key", "://@", "a", "/hook", ":", "https://hook/?sig=x&"])
def test_long_texts_take_no_long_time(piece: str) -> None:
    """A megabyte, whatever it repeats."""
    begun = time.process_time()
    without_credentials("://" + piece * (100_000 // len(piece)))
    assert time.process_time() - begun < 5


@pytest.mark.parametrize(
    ("args", "shown"),
    [
        ("--password hush", "--password ***"),
        ("--password=hush --lr 0.1", "--password=*** --lr 0.1"),
        ("--api-key hush --hf_token=hush", "--api-key *** --hf_token=***"),
        ("-token hush", "-token ***"),
        ("--wandb.api_key hush x", "--wandb.api_key *** x"),
        ("db.password=hush +model=big", "db.password=*** +model=big"),
        ("PGPASSWORD=x --secret hush", "PGPASSWORD=x --secret ***"),
        ("--DB-PASSWORD hush", "--DB-PASSWORD ***"),
        ("--token --lr 1", "--token --lr 1"),
        ("--token= x", "--token= x"),
        ("--password a=b", "--password ***"),
    ],
)
def test_secrets_in_arguments_are_hidden(args: str, shown: str) -> None:
    """By the name of the option; its value is the next word, or the rest of its own."""
    assert without_secret_arguments(args.split()) == tuple(shown.split())


@pytest.mark.parametrize(
    "args",
    [
        *("--sigma 0.5", "--tokenizer bert", "--key-size 128", "--tokens 4", "--author me", "--sessions 3", "--keep 1"),
        *(
            "--eos-token </s>",
            "--pad_token=<pad>",
            "--token-limit 5",
            "--keys a b",
            "--num-pass 2",
            "token x",
            "secret x",
        ),
        *("train.py --steps 3", "--cert-dir x", "--", "--design x"),
    ],
)
def test_hyperparameters_are_shown(args: str) -> None:
    """Reports and comparisons are about them."""
    assert without_secret_arguments(args.split()) == tuple(args.split())


@given(words=st.lists(st.text(max_size=12) | st.sampled_from(["--password", "--api-key=hush", "hush"]), max_size=6))
def test_any_arguments_can_be_shown(words: list[str]) -> None:
    """As many as before, and the same a second time."""
    once = without_secret_arguments(words)
    assert len(once) == len(words)
    assert without_secret_arguments(once) == once


names = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", min_size=1, max_size=12).filter(lambda name: not is_harmless(name))
setups = st.fixed_dictionaries(
    {"env": st.dictionaries(names, st.just("hush"), min_size=1, max_size=3)},
    optional={
        "args": st.sampled_from([["--db", "postgres://u:hush@db"], ["--password", "hush"], ["--token=hush"]]),
        "cwd": st.just("/a"),
    },
)


@given(setup=setups, own=setups, hook=st.sampled_from(["true", "curl https://hooks.slack.com/services/hush"]))
def test_nothing_that_is_shown_of_a_job_has_a_secret(setup: dict[str, Any], own: dict[str, Any], hook: str) -> None:
    """In its own variables, arguments and hooks, and in those of a task type; everything else is as it was."""
    options = {"program": "train.py", "workers": 2, "on_end": hook, **setup, "task": {"worker": own}}
    job = build_job(options, ProgramKind.SCRIPT)
    text = json.dumps(wire.encode(without_secrets(job)))
    assert "hush" not in text
    assert {*setup["env"], *own["env"]} == {*hidden_in(setup["env"], False), *hidden_in(own["env"], False)}
    in_url = any("://" in word for one in (setup, own) for word in one.get("args", ()))
    assert has_credentials(job) is ("hush" in hook or in_url)
    shown, whole = wire.encode(without_secrets(job)), wire.encode(job)
    assert {key for key in whole if whole[key] != shown[key]} <= {"setup", "setups", "hooks", "program"}
    assert without_secrets(without_secrets(job)) == without_secrets(job)


def test_a_job_can_show_its_variables() -> None:
    """With `--show-env`; what is in its URLs stays hidden."""
    job = build_job(
        {"program": "train.py", "env": {"LEVEL": "3", "DB": "postgres://u:hush@db"}, "show_env": True},
        ProgramKind.SCRIPT,
    )
    assert without_secrets(job).setup.env == {"LEVEL": "3", "DB": "postgres://***@db"}
