"""Which image a name means, and what a container of it starts."""

from __future__ import annotations

import pytest

from labnet.image.catalogue import IMAGES, ImageError, command_for, find, program_for
from labnet.image.names import InvalidImageName, parse

AGNHOST = "registry.k8s.io/e2e-test-images/agnhost"


@pytest.mark.parametrize(
    ("short", "full"),
    [
        ("nginx", "docker.io/library/nginx:latest"),
        ("nginx:1.27", "docker.io/library/nginx:1.27"),
        ("library/nginx", "docker.io/library/nginx:latest"),
        ("docker.io/nginx", "docker.io/library/nginx:latest"),
        ("bitnami/nginx", "docker.io/bitnami/nginx:latest"),
        ("registry.k8s.io/pause:3.10", "registry.k8s.io/pause:3.10"),
        ("localhost:5000/a/b:c", "localhost:5000/a/b:c"),
        ("nginx@sha256:ab", "docker.io/library/nginx@sha256:ab"),
    ],
)
def test_a_short_name_has_a_full_form(short: str, full: str) -> None:
    assert str(parse(short)) == full


@pytest.mark.parametrize("text", ["", "Nginx", "nginx:", " nginx", "a/"])
def test_what_cannot_be_a_name_is_refused(text: str) -> None:
    with pytest.raises(InvalidImageName):
        parse(text)


def test_tags_and_digests_are_accepted_and_one_version_is_behind_them() -> None:
    assert find("nginx:1.2")[1] == find("nginx@sha256:0")[1] == IMAGES["docker.io/library/nginx"]


def test_an_unknown_image_names_the_known_ones() -> None:
    with pytest.raises(ImageError, match="nginx, httpd, busybox, alpine, debian") as caught:
        find("postgres")
    assert "docker" in caught.value.hint


@pytest.mark.parametrize(
    ("image", "command", "args", "argv", "program"),
    [
        ("nginx", (), (), ("nginx", "-g", "daemon off;"), "web:main"),
        ("nginx", ("sh", "-c", "nginx"), (), ("sh", "-c", "nginx"), ""),
        (AGNHOST, (), (), ("/agnhost", "pause"), "agnhost:main"),
        (AGNHOST, (), ("netexec",), ("/agnhost", "netexec"), "agnhost:main"),
        (AGNHOST, ("/agnhost", "netexec"), (), ("/agnhost", "netexec"), "agnhost:main"),
        ("registry.k8s.io/pause", (), (), ("/pause",), "pause:main"),
        ("busybox", (), ("sleep", "1"), ("sleep", "1"), ""),
    ],
)
def test_command_and_args_replace_entrypoint_and_cmd(
    image: str,
    command: tuple[str, ...],
    args: tuple[str, ...],
    argv: tuple[str, ...],
    program: str,
) -> None:
    found = command_for(find(image)[1], command, args)
    assert (found.argv, found.program) == (argv, program)


def test_an_exec_of_a_built_in_program_is_one_too() -> None:
    image = find(AGNHOST)[1]
    assert program_for(image, ("/agnhost", "connect", "a:80")) == "agnhost:main"
    assert program_for(image, ("ls",)) == program_for(image, ()) == ""


def test_every_program_of_the_catalogue_is_there() -> None:
    from importlib import import_module

    for image in IMAGES.values():
        for program in image.programs:
            module, _, function = program.entry.partition(":")
            assert callable(getattr(import_module(f"labnet.image.programs.{module}"), function))
