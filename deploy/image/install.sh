#!/bin/sh
# Installs the program with its locked packages into a new virtual environment, without pip or build tools in it.
# Run where the source is: install.sh FOLDER
set -eu
folder=$1
here=$(dirname "$0")
tools=$(mktemp -d)
trap 'rm -rf "$tools"' EXIT

python3 -m venv "$tools"
"$tools/bin/pip" install --quiet --require-hashes -r "$here/build.lock"
"$tools/bin/pip" wheel --quiet --no-deps --no-build-isolation --wheel-dir "$tools/wheels" .

python3 -m venv --without-pip "$folder"
"$tools/bin/pip" --python "$folder/bin/python" install --quiet --require-hashes -r "$here/requirements.lock"
"$tools/bin/pip" --python "$folder/bin/python" install --quiet --no-deps "$tools"/wheels/*.whl
# the names in manifests, which the wheel does not have
cp -R workers "$folder"/lib/python3*/site-packages
