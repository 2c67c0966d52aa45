"""The page about probes: its programs are served, and Kubernetes asks what they answer."""

from __future__ import annotations

import json
import shlex
import shutil
import sys
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
import yaml

from tests.docs.pages import ROOT, blocks, rows, text_of
from tests.embedding.django_project import Project
from tests.embedding.servers_running import Site

pytestmark = pytest.mark.serial

PAGE = "health.md"
FILES = {block.file: block.text for block in blocks(PAGE) if block.file}
EXAMPLES = ROOT / "examples"
PATHS = ("/health/live", "/health/ready", "/health")


@pytest.fixture
def serve(tmp_path):
    site = Site(tmp_path)

    def serve(command, *words, change=lambda text: text):
        """Save what the page saves, and run a command beside it."""
        for name, text in FILES.items():
            if " " not in name:
                changed = change(text.replace(":8000", ":{port}"))
                (tmp_path / name).write_text(changed, encoding="utf-8")
        options = site.options(with_port=[name for name in FILES if " " not in name])
        return site.start([sys.executable, *shlex.split(command), *words], options)

    yield serve
    site.clean_up()


def ask(server, path):
    """Return the status and the body of an answer; 0 as long as nobody answers."""
    try:
        with urlopen(f"http://127.0.0.1:{server.port}{path}", timeout=30) as answer:
            return answer.status, answer.read().decode()
    except HTTPError as error:
        return error.code, error.read().decode()
    except OSError:
        return 0, ""


def expect(server, *wanted, paths=PATHS):
    """Wait until the paths are answered so."""
    server.wait_for(
        lambda: tuple(ask(server, path)[0] for path in paths) == wanted, f"{wanted} on {paths}"
    )


GUNICORN = ("-b", "127.0.0.1:{port}", "--worker-tmp-dir", ".", "--no-control-socket")


def test_a_store_that_is_down_kills_no_process_and_hides_no_site(serve, tmp_path):
    assert "$ gunicorn app:app\n" in text_of(PAGE)
    elsewhere = lambda text: text.replace('"jobs.db"', '"mount/jobs.db"')
    server = serve("-m gunicorn app:app", *GUNICORN, change=elsewhere)
    server.wait_for(lambda: "mount" in ask(server, "/health")[1], "a first failure")
    expect(server, 200, 200, 503)
    told = json.loads(ask(server, "/health")[1])
    assert (told["ok"], told["state"], told["store_up"]) == (False, "starting", False)
    assert ask(server, "/") == (200, "the site\n")
    (tmp_path / "mount").mkdir()
    expect(server, 200, 200, 200)
    server.process.terminate()
    server.end()
    assert server.log().count("scheduler started on ") == 1


def test_a_process_that_serves_nothing(serve):
    server = serve("worker.py")
    expect(server, 200, 200, 200, paths=("/live", "/ready", "/"))
    server.expect_log("syncing\n")
    server.process.terminate()
    server.end()
    assert "scheduler stopped on " in server.log()


def test_the_lines_for_flask(run_page):
    client = run_page(PAGE).names["app"].test_client()
    assert [client.get(path).status_code for path in PATHS] == [200, 200, 503]


def test_the_lines_for_django_need_no_host_and_no_database(tmp_path):
    text = 'ALLOWED_HOSTS = ["shop.example"]\nDEBUG = False\nSECURE_SSL_REDIRECT = True\n'
    project = Project(tmp_path, settings=text)
    wsgi = (tmp_path / "site_wsgi.py").read_text() + FILES["wsgi at the end"]
    project.write("site_wsgi.py", wsgi)
    hooks = FILES["gunicorn.conf.py"].replace("app:scheduler", "anarchon.contrib.django:scheduler")
    project.write("gunicorn.conf.py", hooks)
    try:
        server = project.run("-m", "gunicorn", *GUNICORN, "site_wsgi")
        expect(server, 200, 200, 200)
        assert ask(server, "/state")[0] == 400  # by ALLOWED_HOSTS
        assert json.loads(ask(server, "/health")[1])["state"] == "running"
    finally:
        project.clean_up()


# --- Kubernetes ---------------------------------------------------------------------


@pytest.fixture
def web():
    """The container of the manifest."""
    manifest = yaml.safe_load((EXAMPLES / "kubernetes" / "deployment.yaml").read_text())
    (web,) = manifest["spec"]["template"]["spec"]["containers"]
    return web


def test_the_manifest_has_the_probes_of_the_page(web):
    [block] = blocks(PAGE, "yaml")
    assert block.text in (EXAMPLES / "kubernetes" / "deployment.yaml").read_text()
    wanted = {row[3].strip("`"): row[0].strip("`") for row in questions()[:2]}
    assert {probe: web[probe]["httpGet"]["path"] for probe in wanted} == wanted
    assert "startupProbe" not in web
    probe = web["livenessProbe"]
    # Longer than the longest request, which gunicorn ends after 30 s.
    assert probe["timeoutSeconds"] * probe["failureThreshold"] > 30


def questions() -> list[list[str]]:
    return rows(PAGE, "path", "asks", "503 when", "for")


def test_the_example_answers_the_probes_of_the_manifest(web, tmp_path):
    """With the store of the manifest down: no pod is killed, and each one serves."""
    ignored = shutil.ignore_patterns("*.db*", "__pycache__")
    shutil.copytree(EXAMPLES / "flask_gunicorn", tmp_path, dirs_exist_ok=True, ignore=ignored)
    site = Site(tmp_path)
    probes = [web[probe]["httpGet"]["path"] for probe in ("livenessProbe", "readinessProbe")]
    command = ["127.0.0.1:{port}" if word == "0.0.0.0:8000" else word for word in web["command"]]
    command = [*command[:-1], "app:app"]
    more = ("--worker-tmp-dir", ".", "--no-control-socket")
    here = tmp_path / "app.py"
    here.write_text(here.read_text().replace("sqlite:///jobs.db", "postgresql://127.0.0.1:1/none"))
    try:
        server = site.start([sys.executable, "-m", *command, *more], site.options())
        server.wait_for(lambda: "127.0.0.1" in ask(server, "/health")[1], "a first failure")
        expect(server, 200, 200, 503, paths=(*probes, "/health"))
        server.process.terminate()
        server.end()
    finally:
        site.clean_up()
