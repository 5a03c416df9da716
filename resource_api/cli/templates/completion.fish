# Completion of resource-api for fish.
function __resource_api_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l program (string replace -r '^~/' "$HOME/" -- $words[1])
    set -lx _RESOURCE_API_COMPLETE fish_complete
    set -l reply ($program $words[2..-1] "$current" 2>/dev/null </dev/null | string split0)
    switch "$reply[1]"
        case file
            __fish_complete_path "$current"
        case dir
            __fish_complete_directories "$current"
        case '*'
            test (count $reply) -gt 2; and string join0 -- $reply[2..-2] | string split0
    end
end
complete -c resource-api -f -a '(__resource_api_complete)'
