#compdef resource-api
# Completion of resource-api for zsh.
_resource_api() {
    local current=$PREFIX value
    local -a reply values shown space
    [[ -z $compstate[quote] ]] && current=${(Q)PREFIX}
    reply=("${(@0)"$(_RESOURCE_API_COMPLETE=zsh_complete "${words[1]/#\~\//$HOME/}" \
        "${(@Q)words[2,CURRENT-1]}" "$current" 2>/dev/null </dev/null)"}")
    case $reply[1] in
        file) _files; return ;;
        dir) _files -/; return ;;
        nospace) space=(-S '') ;;
    esac
    shift reply
    while (( $#reply >= 2 )); do
        values+=("$reply[1]")
        shown+=("${reply[2]:0:$((COLUMNS - 1))}")
        shift 2 reply
    done
    (( $#values )) && compadd -U -V resource-api -l -d shown "${space[@]}" -a values
}
if [[ $zsh_eval_context[-1] == loadautofunc ]]; then
    _resource_api "$@"
else
    compdef _resource_api resource-api
fi
