# Completion of resource-api for bash.
_resource_api() {
    local reply
    mapfile -t reply < <(
        _RESOURCE_API_COMPLETE=bash_complete _RESOURCE_API_LINE="${COMP_LINE:0:COMP_POINT}" \
            _RESOURCE_API_BREAKS="$COMP_WORDBREAKS" "${1/#\~\//$HOME/}" 2>/dev/null </dev/null
    )
    COMPREPLY=("${reply[@]:1}")
    case ${reply[0]-} in
        file) compopt -o default ;;
        dir) compopt -o dirnames ;;
        nospace) compopt -o nospace ;;
    esac
}
complete -o nosort -F _resource_api resource-api
