# SPDX-License-Identifier: Apache-2.0
"""The last approved request alike, for approvers to compare with."""

import unittest

from escalation_case import Escalations


class Similar(Escalations):
    def test_the_last_approved_one_to_compare_with(self):
        def one(code):
            return self.id_of(self.ask("other", language="bash", code=code))

        first, refused, other = one("echo one"), one("echo two"), one("echo three")
        self.assertIsNone(self.show(first, self.boss("other"))["similar"])
        approved = self.show(first, self.boss("other"))
        self.vote(first, self.boss("other"))
        self.server.wait_end(approved["execution_id"])
        self.vote(refused, self.boss("other"), "deny", reason="no")
        last = one("echo four")
        for later in (other, last):
            similar = self.show(later, self.boss("other"))["similar"]
            self.assertEqual((similar["id"], similar["execution_id"], similar["subject"]),
                             (first, approved["execution_id"], approved["subject"]))
        self.assertIsNone(self.show(first, self.boss("other"))["similar"], "nothing before it")
        listed = self.call("GET", "/v1/escalations", key=self.boss("other"), status=200).json()["escalations"]
        self.assertFalse(any("similar" in each for each in listed))
        for each in (other, last):
            self.vote(each, self.boss("other"), "deny", reason="enough")


if __name__ == "__main__":
    unittest.main()
