# Memory cgroups for local.sh, which reads this file: one a system (sys1 is the balancer's; PostgreSQL lives with sys3, or
# with sys2 where that is the only backend), v1 or v2, made by `up --memory-limit`, removed by `down`. Where a system's
# cgroup stands is noted in DIR/.SYSTEM.cgroup.
# shellcheck shell=bash

system_of() {  # the system that NAME runs on
  case $1 in
    lb) echo sys1 ;;
    postgres) if ((BACKENDS > 1)); then echo sys3; else echo sys2; fi ;;
    *) echo "$1" ;;
  esac
}

# Folders in which a memory cgroup may be made: this process's own, then the mount's root (a container may show only an
# inner part of the tree); v1 first, since where it has the memory controller, v2 has not.
cgroup_parents() {
  local kind want mount options controllers path
  for want in cgroup cgroup2; do
    while read -r _ mount kind options _; do
      [[ $kind == "$want" ]] || continue
      [[ $kind == cgroup2 || ,$options, == *,memory,* ]] || continue
      while IFS=: read -r _ controllers path; do
        if [[ ($kind == cgroup && ,$controllers, == *,memory,*) || ($kind == cgroup2 && -z $controllers) ]]; then
          printf '%s\n%s\n' "${mount%/}$path" "$mount"
        fi
      done </proc/self/cgroup
    done </proc/mounts
  done
}

set_limit() {  # set_limit FOLDER: 1 where this is no memory cgroup
  local file
  for file in memory.limit_in_bytes memory.max; do
    if [[ -e $1/$file ]] && echo "$MEMORY_LIMIT" 2>/dev/null >"$1/$file"; then return 0; fi
  done
  return 1
}

# Prints the cgroup of a system, which is made if it is not there; 1 where none can be made.
cgroup_of() {
  local system=$1 folder parent name
  folder=$(cat -- "$DIR/.$system.cgroup" 2>/dev/null) || folder=''
  if [[ -n $folder && -d $folder ]] && set_limit "$folder"; then echo "$folder"; return 0; fi
  name=dlb-local-$(cksum <<<"$DIR" | cut -d ' ' -f 1)-$system
  while read -r parent; do
    folder=${parent%/}/$name
    [[ -d $folder ]] || mkdir -- "$folder" 2>/dev/null || continue
    if set_limit "$folder"; then
      echo "$folder" | tee "$DIR/.$system.cgroup"
      return 0
    fi
    rmdir -- "$folder" 2>/dev/null || true
  done < <(cgroup_parents)
  return 1
}

make_cgroups() {
  local name
  for name in $(all_names); do cgroup_of "$(system_of "$name")" >/dev/null || return 1; done
}

remove_cgroups() {  # once their processes have ended, which may take the kernel a moment
  local file folder deadline=$((SECONDS + 5))
  for file in "$DIR"/.sys*.cgroup; do
    [[ -f $file ]] || continue
    folder=$(cat -- "$file")
    while [[ -d $folder ]] && ! rmdir -- "$folder" 2>/dev/null; do
      if ((SECONDS >= deadline)); then say "local.sh: $folder could not be removed"; break; fi
      sleep 0.05
    done
    rm -f -- "$file"
  done
}
