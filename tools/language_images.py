#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Makes an OCI archive for each language, of packages of this machine with what they depend on
(image_root.py), for `cloister image import` and whatever else reads OCI archives, and its bill of materials beside the archive. The
same packages make the same image and the same bill, byte for byte. `--sign` adds signatures by this key to the archives.

    tools/language_images.py [--sign KEY.pem] DIRECTORY [LANGUAGE...]      without languages: all whose packages are here
"""

import argparse
import pathlib
import sys

import debian
import image_archive
import image_bill
import image_root
import image_signature

PATH = "PATH=/usr/local/bin:/usr/bin:/bin"


def configuration(packages):
    return {"Env": [PATH], "Cmd": ["/bin/bash"], "Labels": {"debian.packages": " ".join(packages)}}


def absent(language):
    return [name for name in image_root.LANGUAGES[language] if not debian.package_closure([name])]


def make(language, directory, key):
    packages = image_root.LANGUAGES[language]
    tree, target = directory / "work" / language, directory / f"{language}.tar"
    if image_root.make(packages, tree):
        target.unlink(missing_ok=True)
    if key or not image_archive.is_unsigned(target):
        all_packages = debian.package_closure((*image_root.BASE, *packages))
        image_archive.write(tree, directory / "work" / f"{language}.layer", configuration(all_packages), target,
                            f"localhost/cloister-{language}:latest", image_bill.of_packages(all_packages), key)
    print(target)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, allow_abbrev=False)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("languages", nargs="*")
    parser.add_argument("--sign", type=image_signature.Key, metavar="KEY.pem")
    arguments = parser.parse_intermixed_args()
    directory, wanted = arguments.directory, arguments.languages
    for language in wanted:
        if language not in image_root.LANGUAGES:
            sys.exit(f"language_images: no language {language}; there are {', '.join(image_root.LANGUAGES)}")
        if absent(language):
            sys.exit(f"language_images: {language} needs packages that are not here: apt-get install {' '.join(absent(language))}")
    directory.mkdir(parents=True, exist_ok=True)
    for language in wanted or [each for each in image_root.LANGUAGES if not absent(each)]:
        make(language, directory, arguments.sign)


if __name__ == "__main__":
    try:
        main()
    except (debian.Unavailable, image_signature.Unusable) as reason:
        sys.exit(f"language_images: {reason}")
