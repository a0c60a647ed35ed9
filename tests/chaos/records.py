# SPDX-License-Identifier: Apache-2.0
"""What servers write into ZooKeeper, as the hands that make faults see and change it: straight, not
by any server's way. Any thread may use it."""
import json

from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.security import OPEN_ACL_UNSAFE, make_acl

from cluster import DATACENTER_ID
from harness import wait_for

PARENT = f"/snowflake/datacenters/{DATACENTER_ID}"
CLAIMS = f"{PARENT}/claims"
NO_WRITES = [make_acl("world", "anyone", read=True, admin=True)]
NO_CREATION = [make_acl("world", "anyone", read=True, write=True, delete=True, admin=True)]


class Away(Exception):
    """ZooKeeper does not answer, or has no such thing."""


class Records:
    def __init__(self, ensemble):
        self._ensemble = ensemble
        self._client = ensemble.client()

    def close(self):
        self._client.stop()
        self._client.close()

    def reconnect(self):
        """Behind a close(): to an ensemble that has forgotten what the client of before saw."""
        self._client = self._ensemble.client()

    def _ask(self, question):
        try:
            return question(self._client)
        except NoNodeError as error:
            raise Away(f"not there (any more): {error}") from error
        except (KazooException, KazooTimeoutError) as error:
            raise Away(f"ZooKeeper does not answer: {type(error).__name__}") from error

    @staticmethod
    def reservation(worker_id):
        """The path of its record."""
        return f"{PARENT}/reservations/{worker_id}"

    def owner_of(self, worker_id):
        data, _ = self._ask(lambda client: client.get(self.reservation(worker_id)))
        return json.loads(data)["owner"]

    def delete_claim_of(self, pid):
        """Of the process that has made it."""
        def delete(client):
            for name in client.get_children(CLAIMS):
                if json.loads(client.get(f"{CLAIMS}/{name}")[0]).get("pid") == pid:
                    client.delete(f"{CLAIMS}/{name}")
                    return True
            return False

        if not self._ask(delete):
            raise Away("the server has no claim")

    def refuse(self, path, acl=None):
        """Whoever writes there is refused, until allow()."""
        try:
            self._ask(lambda client: client.set_acls(path, acl or NO_WRITES))
        except Away:
            self.allow(path)  # it may have taken place all the same
            raise

    def allow(self, path):
        """As soon as ZooKeeper can be told."""
        def tell():
            try:
                self._client.set_acls(path, OPEN_ACL_UNSAFE)
            except NoNodeError:
                pass  # a backup knows nothing of it
            except (KazooException, KazooTimeoutError):
                return False
            return True

        wait_for(tell, f"ZooKeeper to allow writing to {path}")

    def allow_all(self):
        """What a backup may have kept of refuse()."""
        names = self._ask(lambda client: client.get_children(f"{PARENT}/reservations"))
        for path in (CLAIMS, *map(self.reservation, names)):
            self.allow(path)
