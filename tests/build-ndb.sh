#!/usr/bin/env bash
# Builds the NDB Cluster programs that the tests run against, from Debian unstable's package mysql-source (GPLv2), into a
# folder of your choice; set IC_NDB_HOME to it afterwards. About six minutes on two cores, 6 GB of disk while it works.
# Needs a Debian or Ubuntu machine with cmake, g++, bison, pkg-config, libssl-dev, libncurses-dev.
set -euo pipefail
[ $# -eq 1 ] || { echo "usage: $0 FOLDER" >&2; exit 2; }
mkdir -p "$1"
target=$(cd "$1" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# A private view of the package lists, so that the machine's own are left alone. The mirror is the machine's.
mirror=$(sed -nE 's/^(URIs:|deb) +(\[[^]]*\] +)?([^ ]+\/debian)\/?( .*)?$/\3/p' \
  /etc/apt/sources.list /etc/apt/sources.list.d/* 2>/dev/null | head -n 1) || true
[ -n "$mirror" ] || { echo "no Debian mirror in /etc/apt" >&2; exit 1; }
mkdir -p "$work/apt/lists/partial" "$work/apt/cache/archives/partial"
echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $mirror sid main" >"$work/apt/sources.list"
apt=(apt-get -o "Dir::Etc::sourcelist=$work/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null
  -o "Dir::State::lists=$work/apt/lists" -o "Dir::Cache=$work/apt/cache" -o APT::Sandbox::User=root)
"${apt[@]}" -qq update
(cd "$work" && "${apt[@]}" -qq download mysql-source && dpkg-deb -x mysql-source_*.deb package)
mkdir "$work/source"
tar -xf "$(find "$work/package/usr/src" -name 'mysql-source*.tar.*' | head -n 1)" -C "$work/source" --strip-components=1

cmake -S "$work/source" -B "$work/build" -DCMAKE_BUILD_TYPE=Release -DWITH_NDB=ON -DWITH_NDB_TEST=ON -DWITH_NDB_JAVA=OFF \
  -DWITH_UNIT_TESTS=OFF -DWITH_ROUTER=OFF -DWITH_SSL=system -DWITH_AUTHENTICATION_CLIENT_PLUGINS=OFF \
  -DWITH_AUTHENTICATION_WEBAUTHN=OFF -DWITH_MYSQLX=OFF -DWITH_FIDO=none -DWITH_CURL=none -DWITH_NUMA=OFF -DWITH_SYSTEMD=OFF \
  >"$work/cmake.log" 2>&1 || { tail -n 40 "$work/cmake.log" >&2; exit 1; }
programs=(ndb_mgmd ndbmtd ndb_mgm ndb_waiter ndb_desc ndb_drop_table ndb_select_all flexAsynch)
cmake --build "$work/build" -j "$(nproc)" --target "${programs[@]}"

mkdir -p "$target/bin" "$target/lib"
for program in "${programs[@]}"; do
  find "$work/build" -type f -name "$program" -perm -u+x -exec cp {} "$target/bin/" \; -quit
done
find "$work/build" -name 'libndbclient.so*' -exec cp -P {} "$target/lib/" \;
echo "$target is ready: export IC_NDB_HOME=$target"
