"""What `deploy/` says is true of this package: options, metrics, paths; and its containers are closed."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer
import yaml
from server.fake import FakeService

from gesso.cli.app import app
from gesso.cluster.settings import ClusterSettings
from gesso.errors import OptionError
from gesso.router.app import Router
from gesso.router.settings import RouterSettings
from gesso.server.metrics import Metrics

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
CHART = DEPLOY / "helm" / "gesso"
TEMPLATES = sorted((CHART / "templates").glob("*.yaml"))
DOCKERFILES = sorted(DEPLOY.glob("*.Dockerfile"))


def read(path: Path) -> Any:
    return yaml.safe_load(path.read_text(encoding="utf-8"))


def options(command: str) -> set[str]:
    """The options of a command of gesso."""
    found: Any = typer.main.get_command(app)
    return {flag for parameter in found.commands[command].params for flag in parameter.opts}


def check_command(arguments: list[str]) -> None:
    command, *rest = arguments
    given = {argument.partition("=")[0] for argument in rest if argument.startswith("--")}
    assert given <= options(command), given - options(command)


def metric_names() -> set[str]:
    """All that a server and a router tell, and what Prometheus adds."""
    router = Router(RouterSettings(replicas=("http://a",)))
    text = Metrics(FakeService()).text() + router.metrics.text()  # type: ignore[arg-type]
    declared = re.findall(r"^# TYPE (\S+) (\S+)$", text.decode(), re.MULTILINE)
    histograms = {f"{name}_bucket" for name, kind in declared if kind == "histogram"}
    return {name for name, _ in declared} | histograms | {"up"}


def metrics_of(expression: str) -> set[str]:
    return set(re.findall(r"\bgesso_\w+|\bup\b", expression))


def test_every_yaml_file_is_read() -> None:
    files = [path for path in DEPLOY.rglob("*.y*ml") if path not in TEMPLATES]
    assert len(files) >= 8
    for path in files:
        assert read(path), path


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.name)
def test_an_image_runs_as_nobody_and_says_how_it_is(path: Path) -> None:
    text = path.read_text()
    lines = [line for line in text.replace("\\\n", " ").splitlines() if line and not line.startswith("#")]
    assert {line.split()[0] for line in lines} <= {
        "FROM", "ARG", "ENV", "RUN", "WORKDIR", "COPY", "USER", "VOLUME", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK",
        "ENTRYPOINT", "CMD",
    }  # fmt: skip
    (user,) = [line.split()[1] for line in lines if line.startswith("USER")]
    assert user == "10001:10001"
    last = max(place for place, line in enumerate(lines) if line.startswith("FROM"))
    assert not [line for line in lines[last:] if line.startswith("RUN") and "pip install" in line]
    assert [line for line in lines[last:] if line.startswith("HEALTHCHECK") and "/health" in line]
    for line in lines:
        if line.startswith("FROM"):
            assert ":" in line.split()[1]
            assert "latest" not in line
        if line.startswith("COPY") and "--from" not in line:
            assert all((ROOT / name).exists() for name in line.split()[1:-1]), line
    ignored = (DEPLOY / f"{path.name}.dockerignore").read_text().split()
    assert ignored[0] == "*"
    assert all((ROOT / name.removeprefix("!")).exists() for name in ignored if name.startswith("!"))
    (entry,) = [json.loads(line.removeprefix("ENTRYPOINT")) for line in lines if line.startswith("ENTRYPOINT")]
    (command,) = [json.loads(line.removeprefix("CMD")) for line in lines if line.startswith("CMD")]
    assert entry == ["gesso"]
    check_command(command)
    assert f"torch=={'${TORCH}'}" in text
    (version,) = re.findall(r"ARG TORCH=(\S+)", text)
    assert f"TORCH ?= torch=={version}" in (ROOT / "Makefile").read_text()


def hadolint(path: Path) -> subprocess.CompletedProcess[str]:
    beside = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    found = shutil.which("hadolint", path=beside)
    assert found is not None, 'hadolint is missing; pip install "gesso[test]"'
    return subprocess.run([found, path], capture_output=True, text=True, check=False)


def test_hadolint_finds_nothing_and_finds_what_is_wrong(tmp_path: Path) -> None:
    for path in DOCKERFILES:
        assert hadolint(path).stdout == ""
    bad = tmp_path / "Dockerfile"
    bad.write_text("FROM python:latest\nRUN apt-get install gcc\n")
    assert "DL3007" in hadolint(bad).stdout


def test_compose_starts_what_there_is_and_nothing_open() -> None:
    services = read(DEPLOY / "compose.yaml")["services"]
    assert set(services) == {"server-1", "server-2", "router", "prometheus", "grafana"}
    for name in ("server-1", "server-2", "router"):
        service = services[name]
        check_command(service["command"])
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert "no-new-privileges:true" in service["security_opt"]
        user = re.search(r"^USER (\d+):(\d+)$", (DEPLOY / "cpu.Dockerfile").read_text("utf-8"), re.MULTILINE)
        assert user is not None
        # What Docker mounts is root's otherwise, and the image's user could write nothing there.
        assert f"/data:uid={user[1]},gid={user[2]}" in service["tmpfs"]
        # Docker starts anew what has ended, and never what is unhealthy.
        assert (name == "router") == ("--exit-on-failure" not in service["command"])
        drain = float(service["command"][service["command"].index("--drain-seconds") + 1])
        assert float(service["stop_grace_period"].removesuffix("s")) > drain
        assert all(volume.endswith(":ro") for volume in service.get("volumes", ()))
    asked = services["router"]["command"][services["router"]["command"].index("--replicas") + 1]
    assert {url.removeprefix("http://").removesuffix(":8000") for url in asked.split(",")} == {"server-1", "server-2"}
    assert not [port for service in services.values() for port in service.get("ports", ()) if "127.0.0.1" not in port]
    for service in services.values():
        for volume in service.get("volumes", ()):
            source = volume.split(":")[0]
            assert not source.startswith("./") or (DEPLOY / source).exists(), source
    targets = {
        target
        for job in read(DEPLOY / "prometheus" / "prometheus.yaml")["scrape_configs"]
        for each in job["static_configs"]
        for target in each["targets"]
    }
    assert targets == {"server-1:8000", "server-2:8000", "router:8000"}


def test_alerts_and_panels_ask_for_metrics_that_there_are() -> None:
    known = metric_names()
    rules = [rule for group in read(DEPLOY / "prometheus" / "alerts.yaml")["groups"] for rule in group["rules"]]
    assert len({rule["alert"] for rule in rules}) == len(rules) >= 10
    for rule in rules:
        assert metrics_of(rule["expr"]), rule
        assert metrics_of(rule["expr"]) <= known, rule["expr"]
        assert rule["labels"]["severity"] in ("warning", "critical")
        assert rule["annotations"]["summary"]
    jobs = {job["job_name"] for job in read(DEPLOY / "prometheus" / "prometheus.yaml")["scrape_configs"]}
    named = {job for rule in rules for job in re.findall(r'job="([^"]+)"', rule["expr"])}
    assert named <= jobs
    board = json.loads((DEPLOY / "grafana" / "dashboards" / "gesso.json").read_text())
    assert len(board["panels"]) >= 10
    for panel in board["panels"]:
        for target in panel["targets"]:
            assert metrics_of(target["expr"]), panel["title"]
            assert metrics_of(target["expr"]) <= known, target["expr"]
    assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])


def test_an_alert_on_a_metric_that_is_not_would_be_seen() -> None:
    assert not metrics_of("rate(gesso_nothing_total[5m]) > 0") <= metric_names()


def paths(value: Any, prefix: str = "") -> set[str]:
    """Dotted paths of all values."""
    if not isinstance(value, dict) or not value:
        return {prefix}
    return set().union(*(paths(part, f"{prefix}.{key}") for key, part in value.items()))


def test_templates_ask_for_values_that_there_are_and_for_all() -> None:
    text = "\n".join(path.read_text() for path in (*TEMPLATES, CHART / "templates" / "_helpers.tpl"))
    asked = set(re.findall(r"\.Values((?:\.\w+)+)", text))
    known = paths(read(CHART / "values.yaml"))
    for path in asked:
        assert any(each == path or each.startswith(f"{path}.") for each in known), path
    for path in known - {".image.pullPolicy", ".image.repository", ".image.tag"}:
        assert any(path == each or path.startswith(f"{each}.") for each in asked), path
    assert set(re.findall(r'include "([^"]+)"', text)) == set(re.findall(r'define "([^"]+)"', text))


@pytest.mark.parametrize("path", TEMPLATES, ids=lambda path: path.name)
def test_templates_open_and_close(path: Path) -> None:
    text = path.read_text()
    opened = re.findall(r"{{-? *(if|range|with|define)\b", text)
    assert len(opened) == len(re.findall(r"{{-? *end\b", text))
    # With every template line left out or filled in, what stays is YAML.
    filled = re.sub(r"^\s*{{-? *(if|range|end|with)\b.*}}\n|^{{-.*-}}\n", "", text, flags=re.MULTILINE)
    filled = re.sub(r"{{-? *(include|toYaml)[^}]*nindent[^}]*}}", "{}", filled)
    filled = re.sub(r"{}\n( +app.kubernetes.io/component)", r"\n\1", filled)
    filled = re.sub(r"limits: {}\n +nvidia.com/gpu", "limits:\n              nvidia.com/gpu", filled)
    filled = re.sub(r"{{-?[^}]*}}", "7", filled)
    for document in yaml.safe_load_all(filled):
        assert {"apiVersion", "kind", "metadata", "spec"} <= set(document), path
        pod = document["spec"].get("template", {}).get("spec") if isinstance(document["spec"], dict) else None
        if pod is None:
            continue
        assert pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        check_command([argument for argument in map(str, container["args"]) if argument != "7"])
        assert container["livenessProbe"]["httpGet"]["path"] == "/health"
        assert container["readinessProbe"]["httpGet"]["path"] == "/ready"
        assert "securityContext" in container
        models = [mount for mount in container["volumeMounts"] if mount["name"] == "models"]
        assert all(mount["readOnly"] for mount in models)
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def test_prometheus_asks_the_router_with_one_key_that_it_knows() -> None:
    """Clients may have several keys, with spaces between, which together are none."""
    assert RouterSettings(replicas=("http://a",), api_keys=("one", "two")).api_keys
    with pytest.raises(OptionError, match="without spaces"):
        RouterSettings(replicas=("http://a",), api_keys=("one two",))
    composed = read(DEPLOY / "compose.yaml")
    clients, metrics = "${GESSO_API_KEY:?choose a key for clients}", "${METRICS_KEY:?choose a key for Prometheus}"
    assert composed["services"]["router"]["environment"]["GESSO_API_KEY"] == f"{clients} {metrics}"
    mounted = {each["target"]: each["source"] for each in composed["services"]["prometheus"]["configs"]}
    jobs = {job["job_name"]: job for job in read(DEPLOY / "prometheus" / "prometheus.yaml")["scrape_configs"]}
    keys = {
        name: composed["configs"][mounted[job["authorization"]["credentials_file"]]]["content"]
        for name, job in jobs.items()
    }
    servers = composed["services"]["server-1"]["environment"]["GESSO_API_KEY"]
    assert keys == {"gesso-server": servers, "gesso-router": metrics}
    # What Kubernetes puts together has to be declared above.
    router = (CHART / "templates" / "router.yaml").read_text()
    declared = dict(
        re.findall(r"- name: (\w+)\n +valueFrom: .*, key: (\w+)}}", router.partition("- name: GESSO_API_KEY")[0])
    )
    assert declared == {"CLIENT_KEYS": "clients", "METRICS_KEY": "metrics"}
    assert "- name: GESSO_API_KEY\n              value: $(CLIENT_KEYS) $(METRICS_KEY)\n" in router
    asked = re.findall(r"key: (\w+)}}", (CHART / "templates" / "prometheus.yaml").read_text())
    assert asked == ["replicas", "metrics"]
    command = (DEPLOY / "README.md").read_text()
    assert set(re.findall(r"--from-literal=(\w+)=", command)) == {"clients", "metrics", "replicas"}


def test_the_cluster_of_kuberay_is_closed_and_asks_for_settings_that_there_are() -> None:
    """Its fields were checked against the operator's own definition of a RayService; here is what it says of gesso."""
    manifest = read(DEPLOY / "kuberay" / "rayservice.yaml")
    assert (manifest["apiVersion"], manifest["kind"]) == ("ray.io/v1", "RayService")
    assert set(manifest["spec"]) == {"serveConfigV2", "rayClusterConfig"}
    cluster = manifest["spec"]["rayClusterConfig"]
    (worker,) = cluster["workerGroupSpecs"]
    serve = yaml.safe_load(manifest["spec"]["serveConfigV2"])
    (application,) = serve["applications"]
    settings = ClusterSettings.read(application["args"])
    module, _, name = application["import_path"].partition(":")
    assert f"def {name}(" in (ROOT / "src" / "gesso" / "cluster" / "app.py").read_text()
    assert (ROOT / "src" / Path(*module.split("."))).with_suffix(".py").exists()
    assert settings.max_replicas <= worker["maxReplicas"] * int(worker_cpus(worker)) / settings.num_cpus
    wanted = (ROOT / "pyproject.toml").read_text()
    assert f'"ray[serve]>={cluster["rayVersion"].rpartition(".")[0]}"' in wanted
    for group in (cluster["headGroupSpec"], worker):
        pod = group["template"]["spec"]
        assert pod["terminationGracePeriodSeconds"] > settings.drain_seconds
        assert pod["securityContext"]["runAsNonRoot"] is True
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["allowPrivilegeEscalation"] is False
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        (key,) = [each for each in container["env"] if each["name"] == "GESSO_API_KEY"]
        assert "secretKeyRef" in key["valueFrom"]
        ports = {port["name"] for port in container["ports"]}
        for probe in ("livenessProbe", "readinessProbe"):
            port = container[probe]["httpGet"]["port"]
            assert isinstance(port, int) or port in ports
        assert {mount["name"] for mount in container["volumeMounts"]} == {volume["name"] for volume in pod["volumes"]}


def worker_cpus(group: dict[str, Any]) -> str:
    (container,) = group["template"]["spec"]["containers"]
    return str(container["resources"]["requests"]["cpu"])


def test_closed_settings_are_those_of_every_container() -> None:
    helpers = (CHART / "templates" / "_helpers.tpl").read_text()
    for line in ("runAsNonRoot: true", "readOnlyRootFilesystem: true", "allowPrivilegeEscalation: false"):
        assert line in helpers
    assert (CHART / "alerts.yaml").read_text() == (DEPLOY / "prometheus" / "alerts.yaml").read_text()
