# SPDX-License-Identifier: Apache-2.0
"""Programs of P30: for each language a program that leaves all it can, and a program that reports its findings. A
LOOK prints a line `what: value` for each possible trace; in fresh sandboxes the lines are always the same. `slot`
and `copied` identify the sandbox instead."""

PYTHON_LEAVE = r'''
import builtins, ctypes, fcntl, gc, json, mmap, os, resource, signal, socket, subprocess, sys, time
libc = ctypes.CDLL(None, use_errno=True)
os.symlink("/", "/tmp/left-link"); os.mkfifo("/tmp/left-fifo"); os.mkdir("/dev/shm/left-folder")
user_site = f"/home/user/.local/lib/python{sys.version_info[0]}.{sys.version_info[1]}/site-packages"
os.makedirs(user_site); os.makedirs("/workspace/node_modules"); os.makedirs("/workspace/__pycache__")
for path in ("/tmp/left", "/dev/shm/left", "/dev/shm/sem.left", "/workspace/left.py", "/workspace/json.py",
             "/home/user/.profile", "/home/user/.bashrc", "/home/user/.npmrc", "/workspace/.pythonrc",
             "/workspace/.ld.so.preload", "/workspace/node_modules/left.js", user_site + "/left.pth",
             user_site + "/usercustomize.py", user_site + "/sitecustomize.py"):
    with open(path, "x") as file: file.write("left = 1\n")
library = os.path.dirname(os.__file__)
for path in (library + "/__pycache__/json.left.pyc", library + "/sitecustomize.py", "/usr/local/bin/left",
             "/var/left", "/run/left", "/etc/ld.so.preload", "/etc/left", "/dev/left", "/left"):
    try: open(path, "x"); print("wrote", path)
    except OSError: pass
libc.shmget(0x5e51d, 4096, 0o1666); libc.msgget(0x5e51d, 0o1666); libc.semget(0x5e51d, 1, 0o1666)
libc.mq_open(b"/left", os.O_CREAT | os.O_RDWR, 0o666, None)
try: libc.syscall(248, b"user", b"left", b"x", 1, -3)  # add_key
except OSError: pass
held = [mmap.mmap(-1, 4096)]
for family, kind, where in ((socket.AF_UNIX, socket.SOCK_STREAM, "\0left"), (socket.AF_UNIX, socket.SOCK_DGRAM, "\0left-too"),
                            (socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", 47001)),
                            (socket.AF_INET, socket.SOCK_DGRAM, ("127.0.0.1", 47001)),
                            (socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 47002))):
    held.append(socket.socket(family, kind)); held[-1].bind(where)
    if kind == socket.SOCK_STREAM: held[-1].listen()
for _ in range(3): subprocess.Popen(["sleep", "300"], start_new_session=True, stdin=subprocess.DEVNULL,
                                    stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
while sum(os.path.basename(os.readlink(f"/proc/{pid}/exe")) == "sleep" for pid in os.listdir("/proc")
          if pid.isdigit() and pid != "1") < 3: time.sleep(0.01)
if os.fork() == 0:  # one that stays as the copy of an interpreter that it is
    signal.pause()
os.environ["LEFT"] = os.environ["LD_PRELOAD"] = "left"
sys.modules["left"] = sys; builtins.left = 1; json.dumps = lambda *a, **k: "left"; os.getcwd = lambda: "/left"
sys.path.insert(0, "/left"); sys.path_hooks.insert(0, lambda path: 1 / 0); sys.meta_path.insert(0, None)
sys.setrecursionlimit(777); gc.disable(); sys.excepthook = print
os.umask(0o77); os.nice(3); os.chdir("/tmp")
os.sched_setaffinity(0, range(1024))
resource.setrlimit(resource.RLIMIT_NOFILE, (50, 60))
signal.signal(signal.SIGUSR1, signal.SIG_IGN); signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR2])
libc.prctl(15, b"left")  # PR_SET_NAME
# What could be shared with others is the open file, not the descriptor.
fcntl.flock(0, fcntl.LOCK_EX); patience = 0
fcntl.fcntl(0, fcntl.F_SETFL, fcntl.fcntl(0, fcntl.F_GETFL) | os.O_NONBLOCK | os.O_APPEND)
sys.stdout.flush()
'''

PYTHON_LOOK = r'''
import ctypes as c, fcntl as f, gc as g, importlib.machinery as im, posix as p, resource as r, signal as s, sys
import builtins as b, json as j, os as o, time as t
libc = c.CDLL(None, use_errno=True)
def tell(what, value): sys.__stdout__.write(f"{what}: {value}\n")
def files(top):
    for name in sorted(p.listdir(top)):
        path = top + "/" + name
        yield path
        if o.path.isdir(path) and not o.path.islink(path): yield from files(path)
def net(name): return len(open("/proc/net/" + name).read().splitlines()) - 1
def exe(pid):
    try: return o.path.basename(p.readlink(f"/proc/{pid}/exe"))
    except OSError: return "?"
def locked(path):  # by one that is stopped and not yet dead, for a moment
    end = t.monotonic() + globals().get("patience", 10)
    while True:
        try: return f.flock(open(path), f.LOCK_EX | f.LOCK_NB)
        except OSError:
            if t.monotonic() > end: return True
tell("slot", open("/proc/self/uid_map").read().split()[1])
tell("copied", "statistics" in sys.modules)
for top in ("/workspace", "/home/user", "/tmp", "/dev/shm"): tell("files " + top, [n for n in files(top) if n != "/workspace/main.py"])
tell("shm", libc.shmget(0x5e51d, 0, 0) < 0); tell("msg", libc.msgget(0x5e51d, 0) < 0); tell("sem", libc.semget(0x5e51d, 0, 0) < 0)
tell("mq", libc.mq_open(b"/left", 0) < 0)
for name in ("unix", "tcp", "udp"): tell(name, net(name))
tell("processes", sorted(exe(pid) for pid in p.listdir("/proc") if pid.isdigit() and int(pid) != p.getpid()))
tell("name", open("/proc/self/comm").read().strip())
tell("environment", sorted(o.environ.items())); tell("modules", sorted(sys.modules)); tell("builtins", sorted(vars(b)))
tell("json", j.dumps.__module__ + j.dumps.__code__.co_filename); tell("getcwd", o.getcwd is p.getcwd)
tell("path", sys.path); tell("hooks", [len(sys.path_hooks), len(sys.meta_path), sys.excepthook is sys.__excepthook__])
tell("interpreter", [sys.getrecursionlimit(), g.isenabled()])
mask = p.umask(0); p.umask(mask)
tell("umask", mask); tell("nice", p.getpriority(0, 0)); tell("directory", p.getcwd()); tell("cpus", len(p.sched_getaffinity(0)))
tell("limits", [r.getrlimit(getattr(r, n)) for n in dir(r) if n.startswith("RLIMIT_")])
tell("signals", [s.getsignal(s.SIGUSR1), sorted(s.pthread_sigmask(s.SIG_BLOCK, []))])
tell("open file", [f.fcntl(0, f.F_GETFL)]); tell("shared memory", [l for l in open("/proc/self/maps") if l.split()[1][1::2] == "ws"])
tell("lock", locked("/dev/null"))
'''

NODE_LEAVE = r'''
const fs = require('fs'), net = require('net'), child = require('child_process')
for (const d of ['/workspace/node_modules/left', '/workspace/.node_modules', '/tmp/left-node'])
  fs.mkdirSync(d, {recursive: true})
for (const f of ['/workspace/node_modules/left/index.js', '/workspace/.node_modules/left.js', '/home/user/.npmrc',
                 '/workspace/package.json', '/tmp/left-node/x', '/dev/shm/left-node']) fs.writeFileSync(f, '{}')
for (let i = 0; i < 3; i++) child.spawn('sleep', ['300'], {detached: true, stdio: 'ignore'}).unref()
process.env.NODE_OPTIONS = process.env.LEFT = 'left'
global.left = 1; JSON.stringify = () => 'left'; require.cache.left = {}; process.umask(0o77); process.chdir('/tmp')
process.title = 'left'; process.on('SIGUSR2', () => {})
require('dgram').createSocket('udp4').bind(47001, '127.0.0.1')
net.createServer().listen(47001, '127.0.0.1', () => net.createServer().listen('\0left', later))
'''

NODE_LOOK = r'''
{
const fs = require('fs'), path = require('path')
const tell = (what, value) => fs.writeSync(1, `${what}: ${typeof value == 'object' ? value.join(' ') : value}\n`)
const files = top => fs.readdirSync(top).sort().flatMap(name => {
  const full = path.join(top, name), at = fs.lstatSync(full)
  return at.isDirectory() ? [full, ...files(full)] : [full]
})
const read = name => fs.readFileSync(name, 'utf8')
const exe = pid => { try { return path.basename(fs.readlinkSync(`/proc/${pid}/exe`)) } catch { return '?' } }
tell('slot', read('/proc/self/uid_map').trim().split(/\s+/)[1])
for (const top of ['/workspace', '/home/user', '/tmp', '/dev/shm']) tell('files ' + top, files(top).filter(f => f != '/workspace/main.js'))
for (const name of ['unix', 'tcp', 'udp']) tell(name, read('/proc/net/' + name).split('\n').length)
tell('processes', fs.readdirSync('/proc').filter(pid => +pid && +pid != process.pid).map(exe).sort())
tell('environment', Object.entries(process.env).map(e => e.join('=')).sort())
tell('globals', Object.getOwnPropertyNames(globalThis).sort())
tell('stringify', JSON.stringify.toString()); tell('cache', Object.keys(require.cache))
let left = 'none'; try { left = require.resolve('left') } catch {}
tell('module', left); tell('umask', process.umask()); tell('directory', process.cwd()); tell('title', process.title)
tell('listeners', process.eventNames().map(String).sort())
}
'''

BASH_LEAVE = r'''
mkdir -p ~/bin; for f in ~/.bashrc ~/.bash_profile ~/.profile ~/.bash_aliases ~/.inputrc ~/bin/ls /workspace/left-bash /tmp/left-bash /dev/shm/left-bash; do
  echo 'left=1' > "$f"; done
mkfifo /tmp/left-bash-fifo
for i in 1 2 3; do setsid sleep 300 </dev/null >/dev/null 2>&1 & done
export LEFT=left BASH_ENV=/tmp/left-bash ENV=/tmp/left-bash PATH=~/bin:$PATH LD_LIBRARY_PATH=/tmp
left() { :; }; export -f left; alias left=ls; trap : USR1; umask 077; ulimit -Sn 50; cd /tmp; set -f; shopt -s nullglob
'''

BASH_LOOK = r'''
PATH=/usr/bin; options="$- $(shopt nullglob)"; set +f
read -r _ first _ < /proc/self/uid_map; echo "slot: $first"
for top in /workspace /home/user /tmp /dev/shm; do echo "files $top:" $(find $top -mindepth 1 ! -path /workspace/main.sh | sort); done
for name in unix tcp udp; do echo "$name: $(wc -l < /proc/net/$name)"; done
echo "processes:" $(readlink /proc/[0-9]*/exe | grep -v -e bash -e sort -e grep -e readlink | sort)
echo "environment:" $(env | grep -v ^_= | sort)
echo "functions:" $(declare -F) "aliases:" $(alias) "traps:" $(trap)
echo "umask: $(umask)"; echo "limits: $(ulimit -Sn)"; echo "directory: $(pwd)"; echo "options: $options"
'''

LEAVE = {"python": PYTHON_LEAVE, "node": NODE_LEAVE.replace("later", "() => process.exit(0)"), "bash": BASH_LEAVE}
LOOK = {"python": PYTHON_LOOK, "node": NODE_LOOK, "bash": BASH_LOOK}
# Programs that leave and then look: their findings are the possible traces.
BOTH = {"python": PYTHON_LEAVE + PYTHON_LOOK, "bash": BASH_LEAVE + BASH_LOOK,
        "node": NODE_LEAVE.replace("later", "() => { look(); process.exit(0) }") + "function look() " + NODE_LOOK.strip()}
# Traces looked for and not left by the same language: a shell makes no sockets, nobody a POSIX queue.
NOT_LEFT = {"python": ["mq"], "node": [], "bash": ["unix", "tcp", "udp"]}
