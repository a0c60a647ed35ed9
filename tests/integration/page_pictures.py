#!/usr/bin/python3
# SPDX-License-Identifier: Apache-2.0
"""Makes the screenshots in docs/status-page/: real servers, under load for some minutes, in a
browser.

    SNOWFLAKE_BUILD=build tests/integration/page_pictures.py docs/status-page
    pngquant --force --ext .png docs/status-page/*.png      # a third of the bytes
"""
import math
import pathlib
import sys
import threading

import wire
from browser import DESK, PHONE, Browser
from harness import Server
from zookeeper import Standalone

LOAD_S = 140
BATCH_EVERY_S = 0.05
PER_SECOND = 60000
WAVE_S = 60
LULL_S = (86, 93)
FLEET = [(1, worker_id) for worker_id in (0, 1, 2, 4, 5)] + [(2, 0), (2, 1), (2, 2), (1, 6)]
AGENTS = ("timeline", "timeline", "timeline", "search", "direct-messages")


def load(server, ended):
    """Requests batches whose size changes over the minutes, with a pause."""
    with server.connect() as connection:
        turn = 0
        while not ended.wait(BATCH_EVERY_S):
            turn += 1
            at_s = turn * BATCH_EVERY_S
            share = 0.6 + 0.35 * math.sin(2 * math.pi * at_s / WAVE_S) + 0.05 * math.sin(5 * at_s)
            if LULL_S[0] < at_s < LULL_S[1]:
                share = 0.1
            connection.call(wire.STRICT, "get_ids", AGENTS[turn % len(AGENTS)],
                            int(PER_SECOND * BATCH_EVERY_S * share))


def start(zookeeper, datacenter_id, worker_id, *options):
    return Server("--zookeeper", f"{zookeeper.connect_string}/pictures", "--datacenter-id",
                  datacenter_id, "--worker-id", worker_id, "--create-registry", "--advertise",
                  f"ids-{worker_id}.dc{datacenter_id}.example:7609", *options).wait_ready()


def take_pictures(server, directory):
    browser = Browser()
    number = server.call("get_id", "timeline")
    for name, size in (("desk", DESK), ("phone", PHONE)):
        for scheme in ("light", "dark"):
            page = browser.open("http://%s:%d/" % server.admin_address, size, scheme)
            page.wait_text("button.quarantined", bool)
            page.tap("#id")
            page.paste(str(number))
            page.wait_text("#parts", bool)
            page.run("document.activeElement.blur()")
            page.screenshot(directory / f"{name}-{scheme}.png")
            page.close()
    browser.close()


def main():
    ended = threading.Event()
    with Standalone().start() as zookeeper:
        server = start(zookeeper, 1, 3, "--admin-listen", "127.0.0.1:0")
        others = [start(zookeeper, *each) for each in FLEET]
        threading.Thread(target=load, args=(server, ended), daemon=True).start()
        ended.wait(LOAD_S)
        others.pop().kill()
        take_pictures(server, pathlib.Path(sys.argv[1]))
        ended.set()
        for each in [server, *others]:
            each.terminate()


main()
