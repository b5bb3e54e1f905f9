"""Settings of the duplicate filter for Scrapy."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from firstseen._cluster import ClusterFilter, connect
from firstseen._firstseen import Filter

if TYPE_CHECKING:
    from scrapy.settings import BaseSettings

#: Share of new pages that are taken for pages that were crawled, and are then not crawled.
FPR = 1e-9
#: Share from which on a warning is logged about the filter of a cluster.
_FPR_WARNED_FROM = 1e-6
#: Settings of a filter of the process. A filter of a cluster has its own.
_OF_PROCESS = ["FIRSTSEEN_FPR", "FIRSTSEEN_WINDOW", "FIRSTSEEN_CAPACITY"]

logger = logging.getLogger("firstseen.scrapy")


def check(settings: BaseSettings) -> None:
    """Raises an exception if settings contradict each other."""
    if not settings.get("FIRSTSEEN_CLUSTER"):
        return
    if not settings.get("FIRSTSEEN_FILTER"):
        raise ValueError("FIRSTSEEN_CLUSTER is set: name the filter of the cluster with FIRSTSEEN_FILTER")
    ignored = [name for name in _OF_PROCESS if settings.get(name) is not None]
    if ignored:
        raise ValueError(
            f"{ignored[0]} has no effect on a filter of a cluster: "
            "remove it, and create the filter with --fpr, --window and --capacity"
        )
    if not settings.get("JOBDIR") and not settings.getbool("FIRSTSEEN_CLUSTER_WITHOUT_JOBDIR"):
        raise ValueError(
            "FIRSTSEEN_CLUSTER is set without JOBDIR: if this crawl is killed, the pages that it has queued are never "
            "crawled, because the cluster takes them for known. Set JOBDIR, or FIRSTSEEN_CLUSTER_WITHOUT_JOBDIR = True "
            "if their loss is acceptable"
        )


def open_pages(settings: BaseSettings, saved: Path | None) -> Filter | ClusterFilter:
    """Connects to the filter of a cluster, or loads the saved filter, or makes a new one."""
    if settings.get("FIRSTSEEN_CLUSTER"):
        return _connected(settings)
    if saved is not None and saved.exists():
        return Filter.load(saved)
    capacity = settings.getint("FIRSTSEEN_CAPACITY")
    return Filter(
        window=settings.get("FIRSTSEEN_WINDOW", "unbounded"),
        capacity=capacity or None,
        fpr=settings.getfloat("FIRSTSEEN_FPR", FPR),
    )


def _connected(settings: BaseSettings) -> ClusterFilter:
    name = settings.get("FIRSTSEEN_FILTER")
    pages = connect(
        settings.get("FIRSTSEEN_CLUSTER"),
        name,
        site=settings.get("FIRSTSEEN_SITE"),
        tls_ca=settings.get("FIRSTSEEN_TLS_CA"),
        tls_cert=settings.get("FIRSTSEEN_TLS_CERT"),
        tls_key=settings.get("FIRSTSEEN_TLS_KEY"),
        token_file=settings.get("FIRSTSEEN_TOKEN_FILE"),
        timeout=settings.getfloat("FIRSTSEEN_TIMEOUT", 5.0),
    )
    fpr = pages.info()["fpr"]
    if fpr > _FPR_WARNED_FROM:
        logger.warning(
            "The filter %s takes a share of %g of the new pages for known ones, and these are never crawled: "
            "create it with --fpr %g",
            *(name, fpr, FPR),
        )
    return pages
