# test/throwaway.sh
#
# What "make check" and "make demo" share; sourced by both, with bash.
#
# Each runs itself twice.  The outer run installs what is missing, copies the
# tree into a new directory under $TMPDIR and starts the inner run there, as an
# unprivileged user; it removes the directory when all is over.  The inner run
# builds, installs below that directory, and may start a server.  So nothing is
# left in the tree, and nothing but Debian packages is put into the system.
#
# PG_MAJOR chooses the server version, PG_CONFIG an installation of your own.

PG_MAJOR=${PG_MAJOR:-15}
PG_CONFIG=${PG_CONFIG:-/usr/lib/postgresql/$PG_MAJOR/bin/pg_config}
export PG_MAJOR PG_CONFIG

say()
{
	printf '%s\n' "$*"
}

die()
{
	say "$0: $*" >&2
	exit 1
}

# Is everything here that package $1 is wanted for?
have()
{
	case $1 in
		gcc | make) command -v "$1" ;;
		libc6-dev) test -e /usr/include/stdio.h ;;
		perl) command -v prove ;;
		libfaketime) compgen -G "/usr/lib/*/faketime/libfaketime.so.1" ;;
		python3-psycopg) /usr/bin/python3 -c "import psycopg" ;;
		libipc-run-perl) perl -MIPC::Run -e 1 ;;
		libtap-parser-sourcehandler-pgtap-perl) command -v pg_prove ;;
		postgresql-*-pgtap) test -e "$("$PG_CONFIG" --sharedir)/extension/pgtap.control" ;;
		postgresql-server-dev-*) test -e "$("$PG_CONFIG" --includedir-server)/postgres.h" ;;
		postgresql-*) test -x "$("$PG_CONFIG" --bindir)/initdb" ;;
		*) die "no test for package $1" ;;
	esac >/dev/null 2>&1
}

# Install those of the packages that are missing, if we may.
need_packages()
{
	local package missing=() install

	for package; do
		have "$package" || missing+=("$package")
	done
	[ ${#missing[@]} -gt 0 ] || return 0

	install="apt-get update && apt-get install -y --no-install-recommends ${missing[*]}"
	if [ "$(id -u)" -eq 0 ] && command -v apt-get >/dev/null; then
		say "installing ${missing[*]}"
		DEBIAN_FRONTEND=noninteractive sh -c "$install" >"$work/apt.log" 2>&1 </dev/null ||
			{ tail -n 20 "$work/apt.log" >&2; die "could not install packages"; }
	elif command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
		say "installing ${missing[*]}"
		sudo -n env DEBIAN_FRONTEND=noninteractive sh -c "$install" >"$work/apt.log" 2>&1 </dev/null ||
			{ tail -n 20 "$work/apt.log" >&2; die "could not install packages"; }
	else
		die "packages are missing; as root, run: $install"
	fi
	for package in "${missing[@]}"; do
		have "$package" || die "package $package is installed, but what it is wanted for is not there"
	done
}

# The outer run: throw_away SCRIPT PACKAGE...
throw_away()
{
	local script=$1 status=0

	shift
	work=$(mktemp -d "${TMPDIR:-/tmp}/voucher.XXXXXX")
	trap 'rm -rf "$work"' EXIT
	need_packages "$@"

	mkdir "$work/tree"
	tar -C "$top" --exclude=./.git --exclude='*.o' --exclude='*.bc' --exclude='*.so' \
		--exclude='./tmp_check*' -cf - . | tar -C "$work/tree" -xf -

	if [ "$(id -u)" -eq 0 ]; then
		chown -R postgres: "$work"
		(cd "$work/tree" && exec runuser -u postgres -- env HOME="$work" THROWAWAY="$work" "$script")
	else
		(cd "$work/tree" && THROWAWAY="$work" "$script")
	fi || status=$?
	return "$status"
}

# The inner run: build, and install below the throw-away directory.  Leaves the
# settings in $work/extension.conf with which a server finds the extension.
build()
{
	work=$THROWAWAY
	bindir=$("$PG_CONFIG" --bindir)
	export LC_ALL=C.UTF-8 PATH="$bindir:$PATH"
	unset PGHOST PGPORT PGUSER PGDATABASE PGOPTIONS

	say "building for $("$PG_CONFIG" --version)"
	make -s "$@" >"$work/build.log" 2>&1 &&
		make -s install DESTDIR="$work/root" >>"$work/build.log" 2>&1 ||
		{ cat "$work/build.log" >&2; die "the build failed"; }

	cat >"$work/extension.conf" <<-CONF
		extension_destdir = '$work/root'
		dynamic_library_path = '$work/root$("$PG_CONFIG" --pkglibdir):\$libdir'
	CONF
}

# Start a server on a socket in the throw-away directory, until the script ends;
# the arguments are settings.  psql and pgbench find it by the environment.
start_server()
{
	local setting

	export PGHOST=$work PGUSER=postgres PGDATABASE=postgres
	"$bindir/initdb" -D "$work/data" -U postgres -A trust --no-sync >"$work/initdb.log" 2>&1 ||
		{ cat "$work/initdb.log" >&2; die "initdb failed"; }
	{
		cat test/voucher.conf "$work/extension.conf"
		say "listen_addresses = ''"
		say "unix_socket_directories = '$work'"
		for setting; do say "$setting"; done
	} >>"$work/data/postgresql.conf"
	"$bindir/pg_ctl" -D "$work/data" -l "$work/server.log" -w start >/dev/null ||
		{ cat "$work/server.log" >&2; die "the server did not start"; }
	trap '"$bindir/pg_ctl" -D "$work/data" -m immediate stop >/dev/null' EXIT
}
