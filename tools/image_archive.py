# SPDX-License-Identifier: Apache-2.0
"""Writes the archive of an image, and its bill of materials beside the archive."""

import image_bill
import image_signature
import oci_archive


def bill_of(archive):
    """The bill's path: python.cdx.json beside python.tar."""
    return archive.with_suffix(".cdx.json")


def write(tree, layer, config, target, name, components, key=None):
    """Writes the root `tree` as the image `name` into the archive `target`. `layer`: a file for the time of the work.
    `components`: those of the bill. `key`: an image_signature.Key, which signs the image and attests the bill."""
    repository = name.rpartition(":")[0]
    layout = oci_archive.Layout()
    image = layout.image(oci_archive.write_layer(tree, layer), layer, config, name)
    bill = image_bill.bill(repository, image["digest"], components)
    if key:
        image_signature.attach(layout, image, repository, bill, key)
    bill_of(target).unlink(missing_ok=True)  # never beside another archive
    layout.write(target)
    layer.unlink()
    new = target.with_suffix(".new")
    new.write_bytes(bill)
    new.rename(bill_of(target))


def is_unsigned(target):
    """Whether a whole archive without signatures is there, with its bill."""
    return target.exists() and bill_of(target).exists() and len(oci_archive.entries(target)) == 1
